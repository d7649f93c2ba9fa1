# SPDX-License-Identifier: Apache-2.0
"""Metadata of child objects: name, owner, labels and annotations. Pure.

A child gets the labels and annotations of its owner, then those that the spec adds, then the operator's own; later ones
win. Labels and annotations that tools set on the owner for their own use (Helm, the last applied manifest) are not
inherited. Pods in a template inherit only labels: tools change annotations often, and every change would replace the
pods.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from slinky.api.fields.templates import PodTemplate
from slinky.api.names import metadata as keys
from slinky.api.names.child_names import DaemonRole
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.build.strategic_merge import merge

#: Prefixes of labels and annotations that are not inherited.
PRIVATE_PREFIXES = ("kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/")


class HasLabels(Protocol):
    """Labels and annotations that a spec adds."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels to add."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations to add."""


def child_manifest(
    owners: Resource[Any],
    owner: HasMeta,
    role: DaemonRole,
    resource: Resource[Any],
    key: Key,
    *,
    metadata: HasLabels | None = None,
    **sections: Any,
) -> JsonObject:
    """Return the manifest of a child of `owner`."""
    return resource.manifest(
        key,
        metadata={
            "labels": {
                **_inherited(owner.metadata.labels),
                **(metadata.labels if metadata else {}),
                **role.labels(owner.metadata.name),
            },
            "annotations": {**inherited_annotations(owner), **(metadata.annotations if metadata else {})},
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
) -> JsonObject:
    """Return a pod template: the spec's template merged over ours, except that our labels and annotations win."""
    return {
        "metadata": {
            "labels": {**_inherited(owner.metadata.labels), **template.metadata.labels, **labels},
            "annotations": {**template.metadata.annotations, **annotations},
        },
        "spec": merge(spec, template.spec),
    }


def inherited_annotations(owner: HasMeta) -> dict[str, str]:
    """Return the annotations that children inherit from their owner."""
    return {
        key: value for key, value in _inherited(owner.metadata.annotations).items() if key not in keys.NOT_INHERITED
    }


def _inherited(entries: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if not key.startswith(PRIVATE_PREFIXES)}
