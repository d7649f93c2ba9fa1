# SPDX-License-Identifier: Apache-2.0
"""The objects of one kind in memory, by key and by index.

A cache is the sink of one watch; it sends no requests. A writer passes the result of each write to `record_write` or
`record_deletion`, so that the next read shows it although its watch event has not arrived yet.

An object that cannot be decoded is never treated as absent: its last decoded version stays in the cache, and if there
is none, `get` raises. A listener or index function that fails on one object is logged and counted: it must not end the
watch, which serves all other objects.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from slinky.kube.errors import Later, Unreadable
from slinky.kube.metrics import CACHED, LISTENER_ERRORS
from slinky.kube.resource import Resource, UndecodableObject
from slinky.kube.types import HasMeta, Key, ObjectMeta, version_number
from slinky.observe import Log

T = TypeVar("T", bound=HasMeta)

log = Log("slinky.kube.cache")

Listener = Callable[[T | None, T | None], None]
"""Called with the old and the new version of an object; None stands for an absent object."""

IndexValues = Callable[[T], Iterable[str]]
"""The values under which an index lists an object."""


class Cache(Generic[T]):
    """The objects of one kind."""

    def __init__(self, resource: Resource[T], *, indexes: Mapping[str, IndexValues[T]] | None = None) -> None:
        self.resource = resource
        self._objects: dict[Key, T] = {}
        self._undecodable: dict[Key, UndecodableObject] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._index_functions}
        self._listeners: list[Listener[T]] = []
        self._removed_uids: dict[Key, str] = {}  # objects that the server reported gone before their watch event
        self._listed_keys: set[Key] | None = None  # None while no list is being read
        self._version = -1  # the resource version up to which the watch has reported
        self._rewound = False
        self._list_is_incomplete = False
        self._synced = asyncio.Event()
        CACHED.labels(resource.name).set_function(lambda: len(self._objects))

    # --- reading

    def get(self, key: Key) -> T | None:
        """The object, or None if there is none; `Unreadable` if it exists but could not be decoded."""
        item = self._objects.get(key)
        if item is None and key in self._undecodable:
            raise Unreadable(f"{self.resource.name} {key}: {self._undecodable[key].why}")
        return item

    def by(self, index: str, value: str) -> list[T]:
        """The objects that an index lists under `value`."""
        return list(self._indexes[index].get(value, {}).values())

    def index_values(self, index: str) -> list[str]:
        """The values under which an index lists objects."""
        return list(self._indexes[index])

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects or key in self._undecodable

    def keys(self) -> list[Key]:
        """The keys of all decoded objects."""
        return list(self._objects)

    @property
    def undecodable(self) -> Mapping[Key, UndecodableObject]:
        """The objects whose newest version could not be decoded."""
        return self._undecodable

    @property
    def synced(self) -> bool:
        """Whether a complete list has arrived at least once."""
        return self._synced.is_set()

    async def wait_synced(self, deadline: float) -> None:
        """Wait for the first complete list; `Later` if it does not arrive in time."""
        try:
            async with asyncio.timeout(deadline):
                await self._synced.wait()
        except TimeoutError:
            raise Later(f"no complete list of {self.resource.name} within {deadline:.0f} s") from None

    def add_indexes(self, indexes: Mapping[str, IndexValues[T]]) -> None:
        """Add indexes; an index whose name exists already stays as it is."""
        for name, values_of in indexes.items():
            if name not in self._index_functions:
                self._index_functions[name] = values_of
                self._indexes[name] = {}
                for key, item in self._objects.items():
                    for value in self._values(name, values_of, item):
                        self._indexes[name].setdefault(value, {})[key] = item

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` on each change, and once now for each object in the cache."""
        self._listeners.append(listener)
        for item in self:
            self._call(listener, None, item)

    # --- the results of writes

    def record_write(self, item: T) -> T:
        """Store an object that the server returned for a write, before its watch event arrives. Returns the object.

        The object is not stored if this version is its last one, or if the watch has already reported its deletion.
        """
        meta = item.metadata
        key, version = meta.key, version_number(meta.resource_version)
        if meta.is_final:
            self.record_removal(key, meta.uid)
        elif key in self._objects or version > self._version or version < 0:
            self._store(key, item, version)
        return item

    def record_deletion(self, item: T, remaining: T | None) -> None:
        """Store the result of deleting `item`: `remaining` is what the server returned, None if the object is gone."""
        if remaining is None:
            self.record_removal(item.metadata.key, item.metadata.uid)
        else:
            self.record_write(remaining)

    def record_removal(self, key: Key, uid: str) -> None:
        """Remove an object that the server reported gone, and ignore older watch events of it."""
        item = self._objects.get(key)
        if item is not None and item.metadata.uid == uid:
            self._removed_uids[key] = uid
            self._discard(key)

    # --- the sink of a watch

    def begin_list(self, *, rewound: bool = False) -> None:
        """A list starts; `rewound` if its resource versions do not compare with earlier ones."""
        self._listed_keys, self._rewound, self._list_is_incomplete = set(), rewound, False
        if rewound:
            self._version = -1

    def put(self, item: T) -> None:
        """Store an object from a list or an event."""
        meta = item.metadata
        key, version = meta.key, version_number(meta.resource_version)
        if self._listed_keys is None:
            self._version = version
        else:
            self._listed_keys.add(key)
        self._store(key, item, version)

    def remove(self, meta: ObjectMeta) -> None:
        """Remove an object because of a DELETED event."""
        key = meta.key
        self._removed_uids.pop(key, None)
        if self._listed_keys is None:
            self._version = max(self._version, version_number(meta.resource_version))
        if not self._has_newer(key, meta.resource_version):
            self._discard(key)

    def put_undecodable(self, item: UndecodableObject) -> None:
        """Note an object that exists but could not be decoded."""
        key = item.metadata.key
        if not key.name:
            self._list_is_incomplete = True  # it may be any object of the cache: this list proves no absence
            return
        if self._listed_keys is not None:
            self._listed_keys.add(key)
        self._undecodable[key] = item

    def finish_list(self, version: str) -> None:
        """The list is complete as of `version`: remove the objects that it does not contain."""
        listed_keys, self._listed_keys = self._listed_keys or set(), None
        if not self._list_is_incomplete:
            for key in [key for key in (*self._objects, *self._undecodable) if key not in listed_keys]:
                if self._rewound or not self._has_newer(key, version):
                    self._discard(key)
        self._removed_uids.clear()
        self._rewound, self._version = False, version_number(version)
        self._synced.set()

    def _store(self, key: Key, item: T, version: int) -> None:
        """Store the object unless the cache has a newer version."""
        if self._removed_uids and self._removed_uids.get(key) == item.metadata.uid:
            return
        old = self._objects.get(key)
        if old is not None and not self._rewound and version <= version_number(old.metadata.resource_version):
            return  # an event from before our own write, or a repeated one
        if self._undecodable:
            self._undecodable.pop(key, None)
        self._objects[key] = item
        self._reindex(key, old, item)
        for listener in self._listeners:
            self._call(listener, old, item)

    def _has_newer(self, key: Key, version: str) -> bool:
        item = self._objects.get(key)
        return item is not None and version_number(item.metadata.resource_version) > version_number(version) >= 0

    def _discard(self, key: Key) -> None:
        self._undecodable.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            self._reindex(key, old, None)
            for listener in self._listeners:
                self._call(listener, old, None)

    def _call(self, listener: Listener[T], old: T | None, new: T | None) -> None:
        try:
            listener(old, new)
        except Exception as error:
            self._report("a listener failed", error, new if new is not None else old)

    def _values(self, index: str, values_of: IndexValues[T], item: T) -> tuple[str, ...]:
        try:
            return tuple(values_of(item))
        except Exception as error:
            self._report(f"the index {index} failed", error, item)
            return ()

    def _report(self, what: str, error: Exception, item: T | None) -> None:
        LISTENER_ERRORS.labels(self.resource.name).inc()
        key = str(item.metadata.key) if item is not None else ""
        log.error(what, error=error, resource=self.resource.name, key=key)

    def _reindex(self, key: Key, old: T | None, new: T | None) -> None:
        for name, values_of in self._index_functions.items():
            index = self._indexes[name]
            new_values = self._values(name, values_of, new) if new is not None else ()
            if old is not None:
                for value in self._values(name, values_of, old):
                    if value not in new_values and (items := index.get(value)) is not None:
                        items.pop(key, None)
                        if not items:
                            del index[value]
            if new is not None:
                for value in new_values:
                    index.setdefault(value, {})[key] = new


def by_owner(item: HasMeta) -> tuple[str, ...]:
    """Index an object under the uid of its controlling owner."""
    owner = item.metadata.controller
    return (owner.uid,) if owner else ()


def by_label(name: str) -> Callable[[Any], tuple[str, ...]]:
    """Index an object under its value of one label."""

    def values_of(item: HasMeta) -> tuple[str, ...]:
        value = item.metadata.labels.get(name)
        return () if value is None else (value,)

    return values_of
