# SPDX-License-Identifier: Apache-2.0
"""Slurm tokens: minted, read, and renewed before they end.

auth/jwt accepts HS256 with the shared key, minted here with the claims that `scontrol token` writes, and
RS256 with published keys (see `jwks`, kept apart because its library costs memory). A `TokenSource` hands
out the token to use now: fixed, from a file that something else rotates, or minted per lifetime.
"""

from __future__ import annotations

import hmac
import json
import os
import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Clock = Callable[[], float]

#: Slurm keeps times in 32 bits.
LAST_SECOND = 2**31 - 2
#: Renewed when a fifth of the life is left, so that a slow clock or a slow server does not meet a dead token.
RENEW_AT = 0.8


class TokenError(ValueError):
    """A key that cannot sign, or text that is not a token."""


class TokenClaims(NamedTuple):
    """What a token says of itself; nothing is verified."""

    user: str
    issued: int | None
    expires: int | None

    def expired(self, now: float) -> bool:
        """Whether Slurm would refuse it for its age."""
        return self.expires is not None and now >= self.expires


def mint_token(
    key: bytes,
    user: str,
    *,
    lifetime: float = 900,
    now: float | None = None,
    issuer: str | None = None,
    identity: str | None = None,
) -> str:
    """A token that acts as `user`, signed with the shared key (HS256)."""
    if len(key) < 16:
        raise TokenError("a jwt key needs at least 16 bytes")
    signed = signing_input({"alg": "HS256", "typ": "JWT"}, build_claims(user, lifetime, now, issuer, identity))
    return f"{signed}.{encode_base64url(hmac.digest(key, signed.encode(), 'sha256'))}"


def read_claims(token: str) -> TokenClaims:
    """What a token claims, without verifying it. Raises `TokenError` for text that is not a token."""
    try:
        _, middle, _ = token.split(".")
        found = json.loads(urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        if not isinstance(found, dict):
            raise TokenError("not a token")
    except (ValueError, UnicodeError, RecursionError) as error:
        raise TokenError("not a token") from error
    user = found.get("sun") or found.get("username") or ""
    return TokenClaims(str(user), _seconds(found.get("iat")), _seconds(found.get("exp")))


class TokenSource(Protocol):
    """Where a client gets its token from."""

    def token(self) -> str:
        """The token to send now."""

    def renew(self) -> bool:
        """The server refused the token: prepare another. False if there is no other to offer."""


class FixedToken:
    """One token, for scripts; it cannot be renewed."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token."""
        return self._token

    def renew(self) -> bool:
        """There is no other."""
        return False


class FileToken:
    """A token kept in a file by somebody else; a changed file is noticed without a restart."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def token(self) -> str:
        """The file's content, read again whenever the file has changed.

        Raises `TokenError` if there has never been a token to read; a file that vanishes for a moment while
        it is being replaced keeps the last one.
        """
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                self._token, self._seen = self._read() or self._token, seen
        except OSError as error:
            if not self._token:
                raise TokenError(f"no token in {self._path}") from error
        if not self._token:
            raise TokenError(f"no token in {self._path}")
        return self._token

    def renew(self) -> bool:
        """Read the file again; True if it now holds another token."""
        before, self._seen = self._token, None
        return self.token() != before

    def _read(self) -> str:
        text = self._path.read_text().strip()
        return text.removeprefix("SLURM_JWT=")  # what `scontrol token` prints


class MintedToken:
    """Tokens signed on the spot and replaced before they end."""

    def __init__(self, key: Callable[[], bytes], user: str, *, lifetime: float = 900, clock: Clock = time.time) -> None:
        self._key = key
        self._user = user
        self._lifetime = lifetime
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """A token with at least a fifth of its life ahead."""
        now = self._clock()
        # A clock that was set back must not keep us on a token from the future.
        if not self._token or not self._renew_at - self._lifetime <= now < self._renew_at:
            self._token = mint_token(self._key(), self._user, lifetime=self._lifetime, now=now)
            self._renew_at = now + self._lifetime * RENEW_AT
        return self._token

    def renew(self) -> bool:
        """Sign anew with the key as it is now; True if that gave another token."""
        before, self._token = self._token, ""
        return self.token() != before


def refresh_after(token: str, *, now: float, lifetime: float) -> float:
    """Seconds until this token should be replaced: never negative, never more than its lifetime, zero if
    unreadable.
    """
    try:
        expires = read_claims(token).expires
    except TokenError:
        return 0.0
    if expires is None:
        return 0.0
    return min(max(expires - lifetime * (1 - RENEW_AT) - now, 0.0), lifetime)


def build_claims(
    user: str, lifetime: float, now: float | None, issuer: str | None, identity: str | None
) -> dict[str, Any]:
    """The claims that Slurm reads, and optionally who issued the token and how to tell it from others."""
    if not user or any(character.isspace() or not character.isprintable() for character in user):
        raise TokenError(f"not a user name: {user!r}")
    if lifetime <= 0:
        raise TokenError("a token needs a lifetime above zero")
    issued = int(time.time() if now is None else now)
    # Slurm refuses an `exp` that is missing or not whole.
    found = {"iat": issued, "exp": min(issued + max(1, int(lifetime)), LAST_SECOND), "sun": user}
    extra = {"iss": issuer, "jti": identity}
    return found | {name: value for name, value in extra.items() if value is not None}


def signing_input(header: dict[str, str], claims: dict[str, Any]) -> str:
    """Header and claims in the form that is signed."""
    return ".".join(encode_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def encode_base64url(raw: bytes) -> str:
    """URL-safe and without padding, as tokens want it."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def new_token_id() -> str:
    """A fresh `jti`, for callers that want each token to be tellable from the next."""
    return str(uuid.uuid4())


def _seconds(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
