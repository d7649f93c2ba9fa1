# SPDX-License-Identifier: Apache-2.0
"""How a Token does. Pure."""

from datetime import UTC, datetime

from slinky.kube.conditions import rfc3339
from slinky.operator.health import Fact, Health
from slinky.slurm.tokens import TokenError, claims


def issued_at(token: bytes) -> str | None:
    """When the token was made, as the status has it."""
    try:
        when = claims(token.decode(errors="replace")).issued
    except TokenError:
        return None
    return None if when is None else rfc3339(datetime.fromtimestamp(when, UTC))


def health(token: bytes, now: float) -> Health:
    """Conditions of a Token: ready while Slurm would accept it."""
    try:
        said = claims(token.decode(errors="replace"))
    except TokenError:
        return Health(Fact(False, "Unreadable", "the Secret holds no token"))
    if said.expired(now):
        return Health(Fact(False, "Expired", "the token is over"), degraded=Fact(True, "Expired"))
    return Health(Fact(True, "Issued"))
