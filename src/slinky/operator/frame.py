# SPDX-License-Identifier: Apache-2.0
"""The frame of every child object: name, owner, labels and annotations. Pure.

Labels and annotations of the owner reach its children, then what the spec adds, then ours, which win. What somebody
else manages on the owner (Helm's marks, the last applied manifest) stays there.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from slinky.api import keys
from slinky.api.names import Role
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.operator.pieces import Piece

#: Prefixes of annotations that speak of the owner itself and of nothing else.
PRIVATE = ("kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/")


class HasMarks(Protocol):
    """Labels and annotations to add."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations."""


def framed(
    owners: Resource[Any],
    owner: HasMeta,
    role: Role,
    resource: Resource[Any],
    key: Key,
    *,
    metadata: HasMarks | None = None,
    **sections: Any,
) -> Piece:
    """A manifest that belongs to `owner`."""
    return resource.manifest(
        key,
        metadata={
            "labels": {
                **owner.metadata.labels,
                **(metadata.labels if metadata else {}),
                **role.labels(owner.metadata.name),
            },
            "annotations": {**inherited(owner), **(metadata.annotations if metadata else {})},
            "ownerReferences": [owners.owner(owner)],
        },
        **sections,
    )


def inherited(owner: HasMeta) -> dict[str, str]:
    """Annotations of the owner that its children share."""
    found = owner.metadata.annotations
    return {key: value for key, value in found.items() if not key.startswith(PRIVATE) and key not in keys.OF_THE_SET}
