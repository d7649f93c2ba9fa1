# SPDX-License-Identifier: Apache-2.0
"""Decides when a credential has to be signed again. Pure."""

from typing import NamedTuple

from slinky.api.token import Token
from slinky.slurm.tokens import TokenError, read_claims, refresh_after

#: Minimum seconds until the next look. In slurm-operator a computed delay of 0 ended all refreshing.
MIN_DELAY = 1.0


class TokenPlan(NamedTuple):
    """Whether to sign a new credential and why, and after how many seconds to look again (None: never)."""

    sign: bool
    requeue_after: float | None
    reason: str = ""


def plan(token: Token, credential: bytes | None, *, signed: bool, now: float) -> TokenPlan:
    """Return the plan for the credential in the Secret; `signed` tells whether the current key has signed it."""
    if credential is None:
        return TokenPlan(True, _delay(token), "there is no token yet")
    if not token.spec.refresh:
        return TokenPlan(False, None)
    text = credential.decode(errors="replace")
    remaining = refresh_after(text, now=now, lifetime=token.lifetime)
    reason = _reason_to_replace(token, text, signed=signed, remaining=remaining)
    return TokenPlan(True, _delay(token), reason) if reason else TokenPlan(False, max(MIN_DELAY, remaining))


def _reason_to_replace(token: Token, text: str, *, signed: bool, remaining: float) -> str:
    """Return why the credential has to be replaced; empty if it is still good."""
    if not signed:
        return "the signing key has changed"
    if not _is_for(text, token.username):
        return "the previous token is for another user"
    return "the previous token expires soon" if remaining <= 0 else ""


def _delay(token: Token) -> float | None:
    return max(MIN_DELAY, 0.8 * token.lifetime) if token.spec.refresh else None


def _is_for(text: str, user: str) -> bool:
    try:
        return read_claims(text).user == user
    except TokenError:
        return False
