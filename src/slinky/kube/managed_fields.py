# SPDX-License-Identifier: Apache-2.0
"""Which programs and users own a field of an object, from `metadata.managedFields`."""

from typing import Any, NamedTuple

from slinky.kube.types import ObjectMeta, View


class FieldManager(NamedTuple):
    """A writer of a field; `subresource` is empty if it wrote the object itself."""

    name: str
    subresource: str = ""


class ManagedFields(View, frozen=True):
    """One entry of `metadata.managedFields`."""

    manager: str = ""
    subresource: str = ""
    fields_v1: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with the managers of fields."""

    managed_fields: tuple[ManagedFields, ...] = ()


class ManagedObject(View, frozen=True):
    """An object of any kind with the managers of its fields."""

    metadata: ManagedMeta

    def managers(self, *path: str) -> frozenset[FieldManager]:
        """The managers of a field, such as `managers("spec", "replicas")`."""
        return frozenset(
            FieldManager(entry.manager, entry.subresource)
            for entry in self.metadata.managed_fields
            if _owns(entry.fields_v1, path)
        )


def _owns(fields: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(fields, dict) or f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True
