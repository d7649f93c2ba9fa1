# SPDX-License-Identifier: Apache-2.0
"""What the server has, in memory, by key and by index.

A cache is the `Sink` of one watch; it does no I/O. Writers hand their results to `wrote` and `removed`, so
that the next read already shows them although the event is still on its way. An object of an unexpected shape
is never taken for an absence: its last good version stays, and without one `get` raises.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from slinky.kube.errors import Later, Unreadable
from slinky.kube.metrics import CACHED
from slinky.kube.resource import Resource, UndecodableObject
from slinky.kube.types import HasMeta, Key, ObjectMeta, version_number

T = TypeVar("T", bound=HasMeta)

Listener = Callable[[T | None, T | None], None]
"""Told the old and the new object of each change; one of them is None for a new or a gone object."""

IndexOf = Callable[[T], Iterable[str]]
"""The values under which an object is found in an index."""


class Cache(Generic[T]):
    """Objects of one kind."""

    def __init__(self, resource: Resource[T], *, indexes: Mapping[str, IndexOf[T]] | None = None) -> None:
        self.resource = resource
        self._objects: dict[Key, T] = {}
        self._odd: dict[Key, UndecodableObject] = {}
        self._index_of = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._index_of}
        self._listeners: list[Listener[T]] = []
        self._graves: dict[Key, str] = {}
        self._seen: set[Key] | None = None
        self._version = -1  # how far the watch has told
        self._rewound = False
        self._blind = False
        self._whole = asyncio.Event()
        CACHED.labels(resource.name).set_function(lambda: len(self._objects))

    # --- reading

    def get(self, key: Key) -> T | None:
        """The object, or None if there is none; `Unreadable` if it exists in a shape we do not know."""
        found = self._objects.get(key)
        if found is None and key in self._odd:
            raise Unreadable(f"{self.resource.name} {key}: {self._odd[key].why}")
        return found

    def by(self, index: str, value: str) -> list[T]:
        """The objects under `value` in an index."""
        return list(self._indexes[index].get(value, {}).values())

    def index_values(self, index: str) -> list[str]:
        """The values an index has objects for."""
        return list(self._indexes[index])

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects or key in self._odd

    def keys(self) -> list[Key]:
        """The keys of all readable objects."""
        return list(self._objects)

    @property
    def odd(self) -> Mapping[Key, UndecodableObject]:
        """Objects whose newest version we could not read."""
        return self._odd

    @property
    def synced(self) -> bool:
        """A whole list has arrived at least once."""
        return self._whole.is_set()

    async def wait_synced(self, deadline: float) -> None:
        """Wait for the first whole list; `Later` if it does not come in time."""
        try:
            async with asyncio.timeout(deadline):
                await self._whole.wait()
        except TimeoutError:
            raise Later(f"no list of {self.resource.name} within {deadline:.0f} s") from None

    def add_indexes(self, indexes: Mapping[str, IndexOf[T]]) -> None:
        """Keep further indexes; one that exists already stays as it is."""
        for name, index_of in indexes.items():
            if name not in self._index_of:
                self._index_of[name] = index_of
                self._indexes[name] = {}
                for key, found in self._objects.items():
                    for value in index_of(found):
                        self._indexes[name].setdefault(value, {})[key] = found

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` on each change, and now for each object there is."""
        self._listeners.append(listener)
        for found in self:
            listener(None, found)

    # --- read your writes

    def record_write(self, found: T) -> T:
        """The server answered a write with this object: show it at once.

        Such an answer may be the last version of an object, or come after the event of its end: neither is shown.
        """
        meta = found.metadata
        key, version = meta.key, version_number(meta.resource_version)
        if meta.over:
            self.record_removal(key, meta.uid)
        elif key in self._objects or version > self._version or version < 0:
            self._keep(key, found, version)
        return found

    def record_deletion(self, gone: T, left: T | None) -> None:
        """The server answered the deletion of `gone` with what is left of it."""
        if left is None:
            self.record_removal(gone.metadata.key, gone.metadata.uid)
        else:
            self.record_write(left)

    def record_removal(self, key: Key, uid: str) -> None:
        """The server answered that this object is gone: hide it, and ignore events from before."""
        found = self._objects.get(key)
        if found is not None and found.metadata.uid == uid:
            self._graves[key] = uid
            self._forget(key)

    # --- being told by a watch

    def begin(self, *, rewound: bool = False) -> None:
        """A whole list starts."""
        self._seen, self._rewound, self._blind = set(), rewound, False
        if rewound:
            self._version = -1

    def put(self, found: T) -> None:
        """The object exists and looks so."""
        meta = found.metadata
        key, version = meta.key, version_number(meta.resource_version)
        if self._seen is None:
            self._version = version
        else:
            self._seen.add(key)
        self._keep(key, found, version)

    def drop(self, meta: ObjectMeta) -> None:
        """The object is gone."""
        key = meta.key
        self._graves.pop(key, None)
        if self._seen is None:
            self._version = max(self._version, version_number(meta.resource_version))
        if not self._newer(key, meta.resource_version):
            self._forget(key)

    def misread(self, found: UndecodableObject) -> None:
        """The object exists, but not in a shape we know."""
        key = found.metadata.key
        if not key.name:
            self._blind = True  # it could be any of ours: this list proves no absence
            return
        if self._seen is not None:
            self._seen.add(key)
        self._odd[key] = found

    def finish(self, version: str) -> None:
        """The list is whole as of `version`."""
        seen, self._seen = self._seen or set(), None
        if not self._blind:
            for key in [key for key in (*self._objects, *self._odd) if key not in seen]:
                if self._rewound or not self._newer(key, version):
                    self._forget(key)
        self._graves.clear()
        self._rewound, self._version = False, version_number(version)
        self._whole.set()

    def _keep(self, key: Key, found: T, version: int) -> None:
        """Hold the object, unless something newer is known."""
        if self._graves and self._graves.get(key) == found.metadata.uid:
            return
        old = self._objects.get(key)
        if old is not None and not self._rewound and version <= version_number(old.metadata.resource_version):
            return  # an event from before our own write, or a repeated one
        if self._odd:
            self._odd.pop(key, None)
        self._objects[key] = found
        self._reindex(key, old, found)
        for listener in self._listeners:
            listener(old, found)

    def _newer(self, key: Key, version: str) -> bool:
        found = self._objects.get(key)
        return found is not None and version_number(found.metadata.resource_version) > version_number(version) >= 0

    def _forget(self, key: Key) -> None:
        self._odd.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            self._reindex(key, old, None)
            for listener in self._listeners:
                listener(old, None)

    def _reindex(self, key: Key, old: T | None, new: T | None) -> None:
        for name, index_of in self._index_of.items():
            index = self._indexes[name]
            after = tuple(index_of(new)) if new is not None else ()
            if old is not None:
                for value in index_of(old):
                    if value not in after and (group := index.get(value)) is not None:
                        group.pop(key, None)
                        if not group:
                            del index[value]
            if new is not None:
                for value in after:
                    index.setdefault(value, {})[key] = new


def by_owner(found: HasMeta) -> tuple[str, ...]:
    """Index an object under the uid of its controlling owner."""
    owner = found.metadata.controller
    return (owner.uid,) if owner else ()


def by_namespace(found: HasMeta) -> tuple[str, ...]:
    """Index an object under its namespace."""
    return (found.metadata.namespace,)


def by_label(name: str) -> Callable[[Any], tuple[str, ...]]:
    """Index an object under its value of one label."""

    def values(found: HasMeta) -> tuple[str, ...]:
        value = found.metadata.labels.get(name)
        return () if value is None else (value,)

    return values
