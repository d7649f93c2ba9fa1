# SPDX-License-Identifier: Apache-2.0
"""The frame of every child object: name, owner, labels and annotations. Pure.

Labels and annotations of the owner reach its children, then what the spec adds, then ours, which win. What somebody
else manages on the owner (Helm's marks, the last applied manifest) stays there. Pods in a template get the labels only:
tools leave their marks in annotations all the time, and each would replace the pods.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from slinky.api.fields.templates import PodTemplate
from slinky.api.names import metadata as keys
from slinky.api.names.child_names import DaemonRole
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.operator.build.pod_parts import Piece
from slinky.operator.build.strategic_merge import merged

#: Prefixes of labels and annotations that speak of the owner itself and of nothing else.
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
    role: DaemonRole,
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
                **_shared(owner.metadata.labels),
                **(metadata.labels if metadata else {}),
                **role.labels(owner.metadata.name),
            },
            "annotations": {**inherited(owner), **(metadata.annotations if metadata else {})},
            "ownerReferences": [owners.owner(owner)],
        },
        **sections,
    )


def pod_template(
    owner: HasMeta,
    template: PodTemplate,
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Piece:
    """A pod of `owner`: a person's part over ours, except that our labels and hashes win."""
    return {
        "metadata": {
            "labels": {**_shared(owner.metadata.labels), **template.metadata.labels, **labels},
            "annotations": {**template.metadata.annotations, **annotations},
        },
        "spec": merged(spec, template.spec),
    }


def inherited(owner: HasMeta) -> dict[str, str]:
    """Annotations of the owner that its children share."""
    return {key: value for key, value in _shared(owner.metadata.annotations).items() if key not in keys.NOT_INHERITED}


def _shared(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if not key.startswith(PRIVATE)}
