# SPDX-License-Identifier: Apache-2.0
"""Mints and reads Slurm tokens (JWT), and renews them before they expire.

auth/jwt accepts HS256 tokens, signed with the shared key, and RS256 tokens, signed with a key whose public half is
published. This module signs HS256 with the same claims as `scontrol token`; `jwks` signs RS256 and is a separate module
because its library needs memory. A `TokenSource` returns the token to send now: a fixed one, one from a file that
another program rotates, or one that is minted when needed.
"""

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

#: Slurm stores times in 32 bits.
MAX_TIME = 2**31 - 2
#: The latest time that a claim may have: the end of the year 9999, as timestamps have four digits for the year.
LATEST_TIME = 253_402_300_799
#: Share of a token's lifetime after which it is renewed, so that a slow clock or server never gets an expired token.
RENEW_AT = 0.8


class TokenError(ValueError):
    """A key that cannot sign, or text that is not a token."""


class TokenClaims(NamedTuple):
    """The claims of a token, not verified."""

    user: str
    issued: int | None
    expires: int | None

    def expired(self, now: float) -> bool:
        """Whether the token has expired."""
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
    """Mint a token for `user`, signed with the shared key (HS256)."""
    if len(key) < 16:
        raise TokenError(f"the JWT key has {len(key)} bytes; it needs at least 16")
    signed = signing_input({"alg": "HS256", "typ": "JWT"}, build_claims(user, lifetime, now, issuer, identity))
    return f"{signed}.{encode_base64url(hmac.digest(key, signed.encode(), 'sha256'))}"


def read_claims(token: str) -> TokenClaims:
    """Read the claims of a token without verifying it. Raises `TokenError` for text that is not a token."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if not isinstance(claims, dict):
            raise TokenError("the text is not a JWT")
    except (ValueError, UnicodeError, RecursionError) as error:
        raise TokenError("the text is not a JWT") from error
    user = claims.get("sun") or claims.get("username") or ""
    return TokenClaims(str(user), _seconds(claims.get("iat")), _seconds(claims.get("exp")))


class TokenSource(Protocol):
    """Provides the token of a client."""

    def token(self) -> str:
        """The token to send now."""

    def renew(self) -> bool:
        """Prepare another token, since the server refused this one. False if there is no other token."""


class FixedToken:
    """One token, for scripts; it cannot be renewed."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token."""
        return self._token

    def renew(self) -> bool:
        """False: there is no other token."""
        return False


class FileToken:
    """A token in a file that another program rotates; a changed file is read again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._version: tuple[int, int, int] | None = None
        self._token = ""

    def token(self) -> str:
        """The content of the file, read again whenever the file has changed.

        While the file is missing, for example during its replacement, the last token is returned. Raises `TokenError`
        if no token was ever read.
        """
        try:
            stat = self._path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                self._token, self._version = self._read() or self._token, version
        except OSError as error:
            if not self._token:
                raise TokenError(f"the file {self._path} has no token") from error
        if not self._token:
            raise TokenError(f"the file {self._path} has no token")
        return self._token

    def renew(self) -> bool:
        """Read the file again; True if it now has another token."""
        before, self._version = self._token, None
        return self.token() != before

    def _read(self) -> str:
        text = self._path.read_text().strip()
        return text.removeprefix("SLURM_JWT=")  # what `scontrol token` prints


class MintedToken:
    """Tokens that are minted when needed and replaced before they expire."""

    def __init__(self, key: Callable[[], bytes], user: str, *, lifetime: float = 900, clock: Clock = time.time) -> None:
        self._key = key
        self._user = user
        self._lifetime = lifetime
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """A token with at least a fifth of its lifetime left."""
        now = self._clock()
        # After the clock was set back, a token from the future must be replaced.
        if not self._token or not self._renew_at - self._lifetime <= now < self._renew_at:
            self._token = mint_token(self._key(), self._user, lifetime=self._lifetime, now=now)
            self._renew_at = now + self._lifetime * RENEW_AT
        return self._token

    def renew(self) -> bool:
        """Mint a token with the current key; True if it differs from the last one."""
        before, self._token = self._token, ""
        return self.token() != before


def refresh_after(token: str, *, now: float, lifetime: float) -> float:
    """Seconds until this token should be replaced: between 0 and its lifetime, 0 if the token is unreadable."""
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
    """The claims that Slurm reads, and optionally the issuer (`iss`) and the identity (`jti`) of the token."""
    if not user or any(character.isspace() or not character.isprintable() for character in user):
        raise TokenError(f"{user!r} is not a user name")
    if lifetime <= 0:
        raise TokenError(f"the lifetime of a token must be above zero, not {lifetime:g} seconds")
    issued = int(time.time() if now is None else now)
    # Slurm refuses an `exp` that is missing or not an integer.
    claims = {"iat": issued, "exp": min(issued + max(1, int(lifetime)), MAX_TIME), "sun": user}
    extra = {"iss": issuer, "jti": identity}
    return claims | {name: value for name, value in extra.items() if value is not None}


def signing_input(header: dict[str, str], claims: dict[str, Any]) -> str:
    """Header and claims in the form that is signed."""
    return ".".join(encode_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def encode_base64url(raw: bytes) -> str:
    """Encode bytes as URL-safe base64 without padding, the encoding of a JWT."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def new_token_id() -> str:
    """A new `jti`, for callers that need to distinguish tokens."""
    return str(uuid.uuid4())


def _seconds(value: object) -> int | None:
    """A time of a claim; None if it is missing. Raises `TokenError` for a number that is no time."""
    if not isinstance(value, int | float):
        return None
    if not 0 <= value <= LATEST_TIME:  # also not true for NaN
        raise TokenError("a time in the token is out of range")
    return int(value)


def configured_tokens(token_file: str, jwt_key_file: str, user: str) -> TokenSource | None:
    """Tokens that are signed with a key for a user, or read from a file; None if neither is configured.

    Without a file, the environment variable SLURM_JWT_FILE names it.
    """
    if jwt_key_file:
        return MintedToken(Path(jwt_key_file).read_bytes, user)
    path = token_file or os.environ.get("SLURM_JWT_FILE", "")
    return FileToken(path) if path else None
