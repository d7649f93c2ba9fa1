# SPDX-License-Identifier: Apache-2.0
"""Which claims of workers are deleted after a scale-in, and which are deleted with their NodeSet. Pure.

A claim is unused if its ordinal has no worker and is not about to get one. A drain alone does not make it unused.
"""

from collections.abc import Iterable, Sequence

import msgspec

from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.bounds import NODES_MAX, parse_integer
from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.actions import AdoptClaim, DeleteClaim
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import Worker


def claim_actions(
    node_set: NodeSet, claims: Sequence[Child], workers: Sequence[Worker], vacant: Iterable[Slot]
) -> Iterable[DeleteClaim | AdoptClaim]:
    """Delete unused claims and set the owners of the others, as the retention policy says."""
    policy = node_set.spec.persistent_volume_claim_retention_policy
    used = {worker.ordinal for worker in workers} | {slot.ordinal for slot in vacant}
    ordinals = _ordinals(node_set, claims)
    for claim in claims:
        if claim.metadata.deleting:
            continue
        ordinal = ordinals.get(claim.metadata.name)
        if policy.when_scaled == "Delete" and not node_set.per_node and ordinal is not None and ordinal not in used:
            yield DeleteClaim(claim)
        elif (owners := _owners(node_set, claim, owned=policy.when_deleted == "Delete")) is not None:
            yield AdoptClaim(claim, owners)


def _ordinals(node_set: NodeSet, claims: Iterable[Child]) -> dict[str, int]:
    """Ordinals of claims by name; claims of DaemonSet mode and of another padding have none."""
    templates = [template.name for template in node_set.claim_templates]
    ordinals: dict[str, int] = {}
    for claim in claims:
        for template in templates:
            digits = claim.metadata.name.removeprefix(node_set.claim_name(template, ""))
            ordinal = parse_integer(digits, 0, NODES_MAX)
            if ordinal is not None and node_set.padded(ordinal) == digits:
                ordinals[claim.metadata.name] = ordinal
    return ordinals


def _owners(node_set: NodeSet, claim: Child, *, owned: bool) -> tuple[JsonObject, ...] | None:
    """The owners that the claim should have; None if it has them. Other owners are kept."""
    live = claim.metadata.owner_references
    others = [owner for owner in live if owner.uid != node_set.metadata.uid]
    if owned == (len(others) < len(live)) or (owned and any(owner.controller for owner in others)):
        return None
    kept: list[JsonObject] = [msgspec.to_builtins(owner) for owner in others]
    return (*kept, NODE_SETS.owner(node_set)) if owned else tuple(kept)
