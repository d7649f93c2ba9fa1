# SPDX-License-Identifier: Apache-2.0
"""A kind, as the client needs it: its path, its scope, its view, and decoders built once.

Built-in and custom kinds alike are a path, a verb and a struct. An object that does not fit its view never
stops the rest: it comes back as `Odd`, with whatever identity could be read.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from slinky.kube.errors import Unreadable
from slinky.kube.types import HasMeta, Key, Manifest, Object, ObjectMeta, Reference, View

T = TypeVar("T", bound=HasMeta)
S = TypeVar("S", bound=HasMeta)
X = TypeVar("X")


_PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"


class ListMeta(View, frozen=True):
    """Bookkeeping of one page of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class Page(msgspec.Struct, Generic[X], frozen=True, gc=False):
    """One page of a list."""

    metadata: ListMeta
    items: list[X] | None = None


class WatchEvent(msgspec.Struct, Generic[X], frozen=True, gc=False):
    """One line of a watch."""

    type: str
    object: X


class UndecodableObject(msgspec.Struct, frozen=True, gc=False):
    """An object of an unexpected shape: who it is, as far as readable, and what is wrong with it."""

    metadata: ObjectMeta
    why: str


class _Bare(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The least that identifies an object, for reading past damage elsewhere in it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True, gc=False):
    metadata: _Bare


_identity = msgspec.json.Decoder(_Identified)


def describe_undecodable(raw: bytes | msgspec.Raw, error: Exception) -> UndecodableObject:
    """What can still be said about an object that did not decode."""
    try:
        bare = _identity.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        bare = _Bare()
    return UndecodableObject(ObjectMeta(bare.name, bare.namespace, bare.uid, bare.resource_version), str(error))


class Resource(Generic[T]):
    """Describes a kind: `Resource("apps/v1", "Deployment", "deployments", DeploymentView)`."""

    def __init__(
        self,
        api_version: str,
        kind: str,
        plural: str,
        view: type[T],
        *,
        namespaced: bool = True,
        intern: Callable[[T], None] | None = None,
        partial: bool = False,
    ) -> None:
        self.api_version = api_version
        self.group, _, self.version = api_version.rpartition("/")
        self.kind = kind
        self.plural = plural
        self.view = view
        self.namespaced = namespaced
        self.intern = intern
        self.accept = _PARTIAL.format("") if partial else "application/json"
        self.accept_list = _PARTIAL.format("List") if partial else "application/json"

    def __repr__(self) -> str:
        return f"<{self.plural}.{self.api_version}>"

    @property
    def name(self) -> str:
        """`deployments.apps`; plain `pods` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, key: Key | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection in `namespace` or everywhere."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        if self.namespaced and (where := key.namespace if key else namespace):
            root += f"/namespaces/{quote(where, safe='')}"
        path = f"{root}/{self.plural}"
        if key:
            path += f"/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def viewed_as(self, view: type[S], intern: Callable[[S], None] | None = None) -> "Resource[S]":
        """The same kind seen through another struct."""
        return Resource(self.api_version, self.kind, self.plural, view, namespaced=self.namespaced, intern=intern)

    def metadata_only(self) -> "Resource[Object]":
        """The same kind without spec and status, left out by the server: for kinds one only counts."""
        return Resource(
            self.api_version,
            self.kind,
            self.plural,
            Object,
            namespaced=self.namespaced,
            partial=True,
        )

    def reference(self, of: HasMeta) -> Reference:
        """Points at an object of this kind, for events."""
        meta = of.metadata
        return Reference(self.api_version, self.kind, meta.name, meta.namespace, meta.uid, meta.resource_version)

    def owner(self, of: HasMeta) -> dict[str, Any]:
        """An `ownerReferences` entry that makes `of` the controller of what carries it."""
        meta = of.metadata
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def manifest(self, key: Key, **sections: Any) -> dict[str, Any]:
        """The frame of an object to write: apiVersion, kind, metadata, then `sections`."""
        named = {"name": key.name, "namespace": key.namespace} if self.namespaced else {"name": key.name}
        meta = {**named, **sections.pop("metadata", {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **sections}

    # --- decoding

    @cached_property
    def _object(self) -> msgspec.json.Decoder[T]:
        return msgspec.json.Decoder(self.view)

    @cached_property
    def _event(self) -> msgspec.json.Decoder[WatchEvent[T]]:
        return msgspec.json.Decoder(WatchEvent[self.view])  # type: ignore[name-defined]

    @cached_property
    def _page(self) -> msgspec.json.Decoder[Page[T]]:
        return msgspec.json.Decoder(Page[self.view])  # type: ignore[name-defined]

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """One object, or `Unreadable`."""
        try:
            found = self._object.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self.name} {describe_undecodable(body, error).metadata.key}: {error}") from error
        if self.intern:
            self.intern(found)
        return found

    def decode_event(self, line: bytes) -> WatchEvent[T] | WatchEvent[UndecodableObject]:
        """One line of a watch that is neither BOOKMARK nor ERROR."""
        try:
            event = self._event.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            envelope = _decode_envelope(line)
            return WatchEvent(envelope.type, describe_undecodable(envelope.object, error))
        if self.intern:
            self.intern(event.object)
        return event

    def decode_page(self, body: bytes) -> Page[T | UndecodableObject]:
        """One page of a list; items of an unexpected shape come as `Odd`."""
        try:
            page: Page[Any] = self._page.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            rough = _decode_raw_page(body, self)
            page = Page(rough.metadata, [self._decode_item(raw) for raw in rough.items or ()])
        if self.intern:
            for item in page.items or ():
                if not isinstance(item, UndecodableObject):
                    self.intern(item)
        return page

    def _decode_item(self, raw: msgspec.Raw) -> T | UndecodableObject:
        try:
            return self._object.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return describe_undecodable(raw, error)


_envelope = msgspec.json.Decoder(WatchEvent[msgspec.Raw])
_raw_page = msgspec.json.Decoder(Page[msgspec.Raw])


def _decode_envelope(line: bytes) -> WatchEvent[msgspec.Raw]:
    try:
        return _envelope.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"watch line {line[:80]!r}: {error}") from error


def _decode_raw_page(body: bytes, resource: Resource[Any]) -> Page[msgspec.Raw]:
    try:
        return _raw_page.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"list of {resource.name}: {error}") from error


def owned_by(resource: Resource[Any]) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Maps an object to the key of its controlling owner of that kind; for `Controller.watch`."""

    def keys(found: HasMeta) -> tuple[Key, ...]:
        owner = found.metadata.controller
        if owner is None or owner.kind != resource.kind:
            return ()
        if owner.api_version.rpartition("/")[0] != resource.group:
            return ()
        return (Key(found.metadata.namespace if resource.namespaced else "", owner.name),)

    return keys


def own_key(found: HasMeta) -> tuple[Key, ...]:
    """Maps an object to its own key."""
    return (found.metadata.key,)


def encode(manifest: Manifest | list[Any] | msgspec.Struct) -> bytes:
    """JSON bytes of what goes out."""
    return msgspec.json.encode(manifest)
