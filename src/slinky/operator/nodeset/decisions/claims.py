# SPDX-License-Identifier: Apache-2.0
"""What happens to the claims of workers: which are deleted when a set shrinks, and which go with the set. Pure.

A claim is unused when its ordinal has no worker and is not about to get one. A drain alone never makes it so.
"""

from collections.abc import Iterable, Sequence

import msgspec

from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.operator.build.pod_parts import Piece
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.actions import AdoptClaim, DeleteClaim
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import Worker


def steps(
    of: NodeSet, held: Sequence[Child], workers: Sequence[Worker], vacant: Sequence[Slot]
) -> Iterable[DeleteClaim | AdoptClaim]:
    """What to do about the claims that a NodeSet has."""
    policy = of.spec.persistent_volume_claim_retention_policy
    used = {worker.ordinal for worker in workers} | {slot.ordinal for slot in vacant}
    ordinals = _ordinals(of, held)
    for claim in held:
        if claim.metadata.deleting:
            continue
        ordinal = ordinals.get(claim.metadata.name)
        if policy.when_scaled == "Delete" and not of.per_node and ordinal is not None and ordinal not in used:
            yield DeleteClaim(claim)
        elif (owners := _owners(of, claim, owned=policy.when_deleted == "Delete")) is not None:
            yield AdoptClaim(claim, owners)


def _ordinals(of: NodeSet, held: Iterable[Child]) -> dict[str, int]:
    """The ordinals of claims by name; claims of nodes, and of another padding, have none."""
    templates = [(found.get("metadata") or {}).get("name", "") for found in of.spec.volume_claim_templates]
    found: dict[str, int] = {}
    for claim in held:
        for template in templates:
            digits = claim.metadata.name.removeprefix(of.claim_name(template, ""))
            if digits.isascii() and digits.isdigit() and of.padded(int(digits)) == digits:
                found[claim.metadata.name] = int(digits)
    return found


def _owners(of: NodeSet, claim: Child, *, owned: bool) -> tuple[Piece, ...] | None:
    """The owners the claim should have; None if it has them. Other people's stay as they are."""
    live = claim.metadata.owner_references
    others = [owner for owner in live if owner.uid != of.metadata.uid]
    if owned == (len(others) < len(live)) or (owned and any(owner.controller for owner in others)):
        return None
    kept: list[Piece] = [msgspec.to_builtins(owner) for owner in others]
    return (*kept, NODE_SETS.owner(of)) if owned else tuple(kept)
