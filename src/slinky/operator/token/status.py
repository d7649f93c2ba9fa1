# SPDX-License-Identifier: Apache-2.0
"""Status conditions of a Token. Pure."""

from slinky.kube.timestamps import format_timestamp
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.slurm.tokens import TokenError, read_claims


def issued_at(credential: bytes) -> str | None:
    """Return when the credential was signed, as a timestamp for the status."""
    try:
        issued = read_claims(credential.decode(errors="replace")).issued
    except TokenError:
        return None
    return None if issued is None else format_timestamp(issued)


def health(credential: bytes, now: float, *, signed: bool) -> ObjectHealth:
    """Return the health of a Token: ready while Slurm accepts it, synced while the current key has signed it."""
    slurm = ConditionState(None, "NotAsked", "the operator signs tokens without asking Slurm")
    config = ConditionState(True, "Signed", "the Secret contains a token that is signed with the current key")
    if not signed:
        config = ConditionState(False, "OtherKey", "the key has changed since; delete the Secret for a new token")
    try:
        token_claims = read_claims(credential.decode(errors="replace"))
    except TokenError:
        problem = ConditionState(True, "Unreadable", "the Secret contains no token; delete it for a new one")
        return ObjectHealth(problem._replace(value=False), degraded=problem, slurm=slurm, config=config)
    if token_claims.expired(now):
        text = "the token has expired and `refresh` is off; delete the Secret for a new one"
        problem = ConditionState(True, "Expired", text)
        return ObjectHealth(problem._replace(value=False), degraded=problem, slurm=slurm, config=config)
    return ObjectHealth(ConditionState(True, "Issued", "the Secret contains a valid token"), slurm=slurm, config=config)
