# SPDX-License-Identifier: Apache-2.0
"""What is said to a deletion.

None is refused (a namespace must be able to go) but the one that would do harm before anybody could prevent it: in the
foreground, Kubernetes deletes children first, so workers would go with the jobs on them, and slurmctld before them. In
the background, which is the default, workers are drained.
"""

from collections.abc import Sequence

from slinky.api import Controller, NodeSet
from slinky.api.names import metadata
from slinky.kube.admission import AdmissionResponse, deny
from slinky.webhook.evaluate import Ours, RuleContext

FOREGROUND = "Foreground"


def farewell(at: Ours, world: RuleContext, propagation: str) -> AdmissionResponse:
    """May it go, and who still needs it."""
    at_stake = sum(one.status.replicas for one in _sets(at, world) if not _given_up(one))
    if propagation == FOREGROUND and at_stake:
        return deny(
            f"deletion in the foreground would end {at_stake} workers at once, with the jobs on them; "
            f"use --cascade=background, which drains them, or say {metadata.FORCE_DELETE}=true on the NodeSet"
        )
    named = ", ".join(world.dependents[:5])
    return AdmissionResponse(warnings=(f"still referred to by {named}",)) if named else AdmissionResponse()


def _sets(at: Ours, world: RuleContext) -> Sequence[NodeSet]:
    """Sets whose workers end with an object; a slurmctld outside of Kubernetes does not."""
    if isinstance(at, NodeSet):
        return (at,)
    return world.node_sets if isinstance(at, Controller) and not at.spec.external else ()


def _given_up(one: NodeSet) -> bool:
    return one.metadata.annotations.get(metadata.FORCE_DELETE) == "true"
