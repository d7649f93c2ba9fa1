# SPDX-License-Identifier: Apache-2.0
"""The structs that all Kubernetes objects share.

A view is a frozen struct with only those fields that a program reads; decoding skips all others. The garbage collector
does not track views (`gc=False`), which is safe because views are trees. Views are read-only: writes send plain
manifests.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

Manifest = Mapping[str, Any]
"""An object to write: nested mappings, as in a YAML file."""


class Key(NamedTuple):
    """Identifies one object of a kind; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The key that `str` formatted."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


class View(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base class of all views."""


class Owner(View, frozen=True):
    """One entry of `ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    # Null in requests for the admission of new objects, in Kubernetes 1.33 and older.
    created: str | None = msgspec.field(default=None, name="creationTimestamp")
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def creation_timestamp(self) -> str:
        """When the object was created; empty for an object that the server does not have yet."""
        return self.created or ""

    @property
    def deleting(self) -> bool:
        """Whether the deletion of this object has been requested."""
        return self.deletion_timestamp is not None

    @property
    def is_final(self) -> bool:
        """Whether this is the last version: deleted, with neither a grace period nor a finalizer left."""
        return self.deleting and not self.deletion_grace_period_seconds and not self.finalizers

    @property
    def controller(self) -> Owner | None:
        """The owner that manages this object, or None."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(View, frozen=True):
    """The metadata of an object of any kind; base class of views with more fields."""

    metadata: ObjectMeta

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


class HasMeta(Protocol):
    """A view with metadata, as the runtime requires."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


class Condition(View, frozen=True):
    """One entry of `status.conditions`, as `kubectl wait` reads it."""

    type: Annotated[str, msgspec.Meta(description="Type of the condition.")]
    status: Annotated[
        str,
        msgspec.Meta(description="True, False or Unknown.", extra_json_schema={"enum": ["True", "False", "Unknown"]}),
    ]
    reason: Annotated[str, msgspec.Meta(description="Reason for the status, in one word.")] = ""
    message: Annotated[str, msgspec.Meta(description="Explanation of the status.")] = ""
    last_transition_time: Annotated[str | None, msgspec.Meta(description="Time at which the status last changed.")] = (
        None
    )
    observed_generation: Annotated[
        int, msgspec.Meta(description="Generation of the object that this condition describes.")
    ] = 0


class Reference(View, frozen=True):
    """A reference to one object, for events."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def version_number(resource_version: str) -> int:
    """A resource version as a number that orders writes; -1 if it is empty or not a number.

    Kubernetes guarantees from 1.35 on that the versions of one kind are decimal numbers that grow with each write.
    """
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else -1
