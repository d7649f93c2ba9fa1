# SPDX-License-Identifier: Apache-2.0
"""The structs every Kubernetes object shares.

A view is a frozen struct with the fields a program reads and no others: unknown fields are skipped while
decoding, and the cyclic garbage collector never visits it (`gc=False` is safe because views are trees). Views
are read-only; what is written goes out as plain manifests.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

Manifest = Mapping[str, Any]
"""An object to be written: plain nested mappings, as in a YAML file."""


class Key(NamedTuple):
    """Names one object of a kind; the namespace is empty for cluster-wide kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The inverse of `str`."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


class View(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Parent of every partial view."""


class Owner(View, frozen=True):
    """One entry of `ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True):
    """Identity and bookkeeping of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Somebody asked for this object to go."""
        return self.deletion_timestamp is not None

    @property
    def over(self) -> bool:
        """Nothing holds it any more, neither a grace period nor a finalizer: this is its last version."""
        return self.deleting and not self.deletion_grace_period_seconds and not self.finalizers

    @property
    def controller(self) -> Owner | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(View, frozen=True):
    """Any object, seen only by its metadata."""

    metadata: ObjectMeta

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


class HasMeta(Protocol):
    """What the runtime needs of any view."""

    @property
    def metadata(self) -> ObjectMeta:
        """Identity and bookkeeping."""


class Condition(View, frozen=True):
    """One entry of `status.conditions`, as `kubectl wait` reads it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class Reference(View, frozen=True):
    """Points at one object, for events."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def version_number(version: str) -> int:
    """A resource version as a number that orders writes; -1 when there is none or it is not a number.

    Kubernetes promises from 1.35 on that versions of one kind are decimal numbers which grow with each write.
    """
    return int(version) if version.isascii() and version.isdigit() else -1
