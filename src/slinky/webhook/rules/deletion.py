# SPDX-License-Identifier: Apache-2.0
"""Reviews deletions.

Deletions are allowed, because a namespace must be removable, with one exception. Foreground deletion deletes the
children first: workers would be deleted together with their jobs, and slurmctld before its workers. Background
deletion, the default, drains the workers first.
"""

from collections.abc import Sequence

from slinky.api import Controller, NodeSet
from slinky.api.names import metadata
from slinky.kube.admission import AdmissionResponse, deny
from slinky.webhook.evaluate import CustomResource, RuleContext

FOREGROUND = "Foreground"


def review_deletion(target: CustomResource, context: RuleContext, propagation: str) -> AdmissionResponse:
    """Refuse a foreground deletion that would delete workers; otherwise warn about the objects that refer to it."""
    workers = sum(node_set.status.replicas for node_set in _node_sets(target, context) if not _is_forced(node_set))
    if propagation == FOREGROUND and workers:
        return deny(
            f"foreground deletion would delete {workers} workers at once, with the jobs on them; "
            f"use --cascade=background, which drains them first, or set {metadata.FORCE_DELETE}=true on the NodeSet"
        )
    dependents = ", ".join(context.dependents[:5])
    return AdmissionResponse(warnings=(f"still referred to by {dependents}",)) if dependents else AdmissionResponse()


def _node_sets(target: CustomResource, context: RuleContext) -> Sequence[NodeSet]:
    """NodeSets whose workers stop with the target; those of an external slurmctld do not."""
    if isinstance(target, NodeSet):
        return (target,)
    return context.node_sets if isinstance(target, Controller) and not target.spec.external else ()


def _is_forced(node_set: NodeSet) -> bool:
    return node_set.metadata.annotations.get(metadata.FORCE_DELETE) == "true"
