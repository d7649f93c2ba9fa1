# SPDX-License-Identifier: Apache-2.0
"""When a token has to be made or replaced. Pure."""

from typing import NamedTuple

from slinky.api.token import Token
from slinky.slurm.tokens import TokenError, claims, refresh_after

#: Never look more often than this; a delay of zero once stopped a whole operator's refreshing.
SOONEST = 1.0


class Plan(NamedTuple):
    """Make a new token now, or look again after so many seconds (None: never)."""

    mint: bool
    again: float | None
    why: str = ""


def plan(of: Token, held: bytes | None, *, signed: bool, now: float) -> Plan:
    """What to do, given the token in the Secret and whether it is signed with the key that is valid now."""
    if held is None:
        return Plan(True, _later(of), "there is no token yet")
    if not of.spec.refresh:
        return Plan(False, None)
    text = held.decode(errors="replace")
    if not signed:
        return Plan(True, _later(of), "the signing key has changed")
    if not _is_for(text, of.username):
        return Plan(True, _later(of), "it is for somebody else")
    left = refresh_after(text, now=now, lifetime=of.lifetime)
    if left <= 0:
        return Plan(True, _later(of), "it ends soon")
    return Plan(False, max(SOONEST, left))


def _later(of: Token) -> float | None:
    return max(SOONEST, 0.8 * of.lifetime) if of.spec.refresh else None


def _is_for(text: str, user: str) -> bool:
    try:
        return claims(text).user == user
    except TokenError:
        return False
