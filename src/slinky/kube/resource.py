# SPDX-License-Identifier: Apache-2.0
"""The description of a kind for the client: its path, its scope, its view and its decoders.

An object that does not fit its view does not stop the decoding of the others: it is returned as an
`UndecodableObject` with as much of its identity as could be read.
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
    """The metadata of one page of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[X], frozen=True, gc=False):
    """One page of a list."""

    metadata: ListMeta
    items: list[X] | None = None


class WatchEvent(msgspec.Struct, Generic[X], frozen=True, gc=False):
    """One event of a watch."""

    type: str
    object: X


class UndecodableObject(msgspec.Struct, frozen=True, gc=False):
    """An object that does not fit its view: its identity, as far as it could be read, and the error."""

    metadata: ObjectMeta
    why: str


class _Identity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The identity of an object; it can be decoded even if other fields cannot."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True, gc=False):
    metadata: _Identity


_identity_decoder = msgspec.json.Decoder(_Identified)


def describe_undecodable(raw: bytes | msgspec.Raw, error: Exception) -> UndecodableObject:
    """The identity of an object that could not be decoded, and the error."""
    try:
        identity = _identity_decoder.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        identity = _Identity()
    meta = ObjectMeta(identity.name, identity.namespace, identity.uid, identity.resource_version)
    return UndecodableObject(meta, str(error))


class Resource(Generic[T]):
    """The description of a kind: `Resource("apps/v1", "Deployment", "deployments", DeploymentView)`."""

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
        """The full name, such as `deployments.apps`; only `pods` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, key: Key | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection in one or all namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        if self.namespaced and (where := key.namespace if key else namespace):
            root += f"/namespaces/{quote(where, safe='')}"
        path = f"{root}/{self.plural}"
        if key:
            path += f"/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def viewed_as(self, view: type[S], intern: Callable[[S], None] | None = None) -> "Resource[S]":
        """The same kind with another view."""
        return Resource(self.api_version, self.kind, self.plural, view, namespaced=self.namespaced, intern=intern)

    def metadata_only(self) -> "Resource[Object]":
        """The same kind without spec and status, which the server then does not send."""
        return Resource(
            self.api_version,
            self.kind,
            self.plural,
            Object,
            namespaced=self.namespaced,
            partial=True,
        )

    def reference(self, item: HasMeta) -> Reference:
        """A reference to an object of this kind, for events."""
        meta = item.metadata
        return Reference(self.api_version, self.kind, meta.name, meta.namespace, meta.uid, meta.resource_version)

    def owner(self, item: HasMeta) -> dict[str, Any]:
        """An `ownerReferences` entry that makes `item` the controlling owner."""
        meta = item.metadata
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def manifest(self, key: Key, **sections: Any) -> dict[str, Any]:
        """A manifest with apiVersion, kind and metadata, and the given sections."""
        identity = {"name": key.name, "namespace": key.namespace} if self.namespaced else {"name": key.name}
        meta = {**identity, **sections.pop("metadata", {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **sections}

    # --- decoding

    @cached_property
    def _object_decoder(self) -> msgspec.json.Decoder[T]:
        return msgspec.json.Decoder(self.view)

    @cached_property
    def _event_decoder(self) -> msgspec.json.Decoder[WatchEvent[T]]:
        return msgspec.json.Decoder(WatchEvent[self.view])  # type: ignore[name-defined]

    @cached_property
    def _page_decoder(self) -> msgspec.json.Decoder[Page[T]]:
        return msgspec.json.Decoder(Page[self.view])  # type: ignore[name-defined]

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """Decode one object; `Unreadable` if it does not fit the view."""
        try:
            item = self._object_decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self.name} {describe_undecodable(body, error).metadata.key}: {error}") from error
        if self.intern:
            self.intern(item)
        return item

    def decode_event(self, line: bytes) -> WatchEvent[T] | WatchEvent[UndecodableObject]:
        """Decode one line of a watch; the objects of BOOKMARK and ERROR events are usually undecodable."""
        try:
            event = self._event_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            envelope = _decode_envelope(line)
            return WatchEvent(envelope.type, describe_undecodable(envelope.object, error))
        if self.intern:
            self.intern(event.object)
        return event

    def decode_page(self, body: bytes) -> Page[T | UndecodableObject]:
        """Decode one page of a list; items that do not fit the view are `UndecodableObject`s."""
        try:
            page: Page[Any] = self._page_decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raw_page = _decode_raw_page(body, self)
            page = Page(raw_page.metadata, [self._decode_item(raw) for raw in raw_page.items or ()])
        if self.intern:
            for item in page.items or ():
                if not isinstance(item, UndecodableObject):
                    self.intern(item)
        return page

    def _decode_item(self, raw: msgspec.Raw) -> T | UndecodableObject:
        try:
            return self._object_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return describe_undecodable(raw, error)


_envelope_decoder = msgspec.json.Decoder(WatchEvent[msgspec.Raw])
_raw_page_decoder = msgspec.json.Decoder(Page[msgspec.Raw])


def _decode_envelope(line: bytes) -> WatchEvent[msgspec.Raw]:
    try:
        return _envelope_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"watch event {line[:80]!r} cannot be decoded: {error}") from error


def _decode_raw_page(body: bytes, resource: Resource[Any]) -> Page[msgspec.Raw]:
    try:
        return _raw_page_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"list of {resource.name} cannot be decoded: {error}") from error


def owned_by(resource: Resource[Any]) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Maps an object to the key of its controlling owner of that kind; for `ControlLoop.watch`."""

    def keys(item: HasMeta) -> tuple[Key, ...]:
        owner = item.metadata.controller
        if owner is None or owner.kind != resource.kind:
            return ()
        if owner.api_version.rpartition("/")[0] != resource.group:
            return ()
        return (Key(item.metadata.namespace if resource.namespaced else "", owner.name),)

    return keys


def own_key(item: HasMeta) -> tuple[Key, ...]:
    """Maps an object to its own key."""
    return (item.metadata.key,)


def encode(manifest: Manifest | list[Any] | msgspec.Struct) -> bytes:
    """Encode a request body as JSON."""
    return msgspec.json.encode(manifest)
