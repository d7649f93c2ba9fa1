# SPDX-License-Identifier: Apache-2.0
"""How a Token does. Pure."""

from slinky.kube.timestamps import format_timestamp
from slinky.operator.framework.conditions import Fact, ObjectHealth
from slinky.slurm.tokens import TokenError, read_claims


def issued_at(token: bytes) -> str | None:
    """When the token was made, as the status has it."""
    try:
        when = read_claims(token.decode(errors="replace")).issued
    except TokenError:
        return None
    return None if when is None else format_timestamp(when)


def health(token: bytes, now: float, *, signed: bool) -> ObjectHealth:
    """Conditions of a Token: ready while Slurm would accept it, in sync while the current key has signed it."""
    slurm = Fact(None, "NotAsked", "the operator signs tokens by itself and asks no Slurm about them")
    config = Fact(True, "Signed", "the Secret holds a token that the current key has signed")
    if not signed:
        config = Fact(False, "OtherKey", "the key has changed since; delete the Secret for a new token")
    try:
        said = read_claims(token.decode(errors="replace"))
    except TokenError:
        wrong = Fact(True, "Unreadable", "the Secret holds no token; delete it for a new one")
        return ObjectHealth(wrong._replace(value=False), degraded=wrong, slurm=slurm, config=config)
    if said.expired(now):
        wrong = Fact(True, "Expired", "the token is over and `refresh` is off; delete the Secret for a new one")
        return ObjectHealth(wrong._replace(value=False), degraded=wrong, slurm=slurm, config=config)
    return ObjectHealth(Fact(True, "Issued", "the Secret holds a valid token"), slurm=slurm, config=config)
