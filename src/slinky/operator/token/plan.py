# SPDX-License-Identifier: Apache-2.0
"""When a token has to be made or replaced. Pure."""

from typing import NamedTuple

from slinky.api.token import Token
from slinky.slurm.tokens import TokenError, read_claims, refresh_after

#: Never look more often than this; a delay of zero once stopped a whole operator's refreshing.
SOONEST = 1.0


class TokenPlan(NamedTuple):
    """Make a new token now, or look again after so many seconds (None: never)."""

    mint: bool
    again: float | None
    why: str = ""


def plan(of: Token, held: bytes | None, *, signed: bool, now: float) -> TokenPlan:
    """What to do, given the token in the Secret and whether it is signed as tokens are to be signed now."""
    if held is None:
        return TokenPlan(True, _later(of), "there is no token yet")
    if not of.spec.refresh:
        return TokenPlan(False, None)
    text = held.decode(errors="replace")
    left = refresh_after(text, now=now, lifetime=of.lifetime)
    why = _flaw(of, text, signed=signed, left=left)
    return TokenPlan(True, _later(of), why) if why else TokenPlan(False, max(SOONEST, left))


def _flaw(of: Token, text: str, *, signed: bool, left: float) -> str:
    """Why this token has to be replaced; empty if it has not."""
    if not signed:
        return "the signing key has changed"
    if not _is_for(text, of.username):
        return "it is for somebody else"
    return "it ends soon" if left <= 0 else ""


def _later(of: Token) -> float | None:
    return max(SOONEST, 0.8 * of.lifetime) if of.spec.refresh else None


def _is_for(text: str, user: str) -> bool:
    try:
        return read_claims(text).user == user
    except TokenError:
        return False
