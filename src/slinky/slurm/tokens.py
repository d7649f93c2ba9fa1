# SPDX-License-Identifier: Apache-2.0
"""Slurm tokens: minted, read, and renewed before they end.

auth/jwt accepts HS256 with the shared key and RS256 with a published key set; both are minted here with the
claims that `scontrol token` writes. A `TokenSource` hands out the token to use now: fixed, from a file that
something else rotates, or minted per lifetime. Nothing here logs or prints a token.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

Clock = Callable[[], float]

#: Slurm keeps times in 32 bits.
LAST_SECOND = 2**31 - 2
#: Renewed when a fifth of the life is left, so that a slow clock or a slow server does not meet a dead token.
RENEW_AT = 0.8


class TokenError(ValueError):
    """A key that cannot sign, or text that is not a token."""


class Claims(NamedTuple):
    """What a token says of itself; nothing is verified."""

    user: str
    issued: int | None
    expires: int | None

    def expired(self, now: float) -> bool:
        """Whether Slurm would refuse it for its age."""
        return self.expires is not None and now >= self.expires


def mint(
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
    return jwt.encode(_claims(user, lifetime, now, issuer, identity), key, algorithm="HS256")


def mint_rs256(
    private_pem: bytes,
    user: str,
    *,
    kid: str,
    lifetime: float = 900,
    now: float | None = None,
    issuer: str | None = None,
    identity: str | None = None,
) -> str:
    """A token that acts as `user`, signed with a private key whose public half is in slurmctld's JWKS
    (RS256).
    """
    claims = _claims(user, lifetime, now, issuer, identity)
    return jwt.encode(claims, _rsa(private_pem), algorithm="RS256", headers={"kid": kid})


def jwks(keys: dict[str, bytes]) -> str:
    """The JWKS document, for `AuthAltParameters=jwks=`, that publishes these private keys' public halves by
    key id.
    """
    return json.dumps(
        {"keys": [_jwk(kid, _rsa(pem).public_key()) for kid, pem in sorted(keys.items())]}, indent=1
    )


def claims(token: str) -> Claims:
    """What a token claims, without verifying it. Raises `TokenError` for text that is not a token."""
    try:
        found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False, "verify_exp": False})
    except jwt.PyJWTError as error:
        raise TokenError("not a token") from error
    user = found.get("sun") or found.get("username") or ""
    return Claims(str(user), _seconds(found.get("iat")), _seconds(found.get("exp")))


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

    def __init__(
        self, key: Callable[[], bytes], user: str, *, lifetime: float = 900, clock: Clock = time.time
    ) -> None:
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
            self._token = mint(self._key(), self._user, lifetime=self._lifetime, now=now)
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
        expires = claims(token).expires
    except TokenError:
        return 0.0
    if expires is None:
        return 0.0
    return min(max(expires - lifetime * (1 - RENEW_AT) - now, 0.0), lifetime)


def _claims(
    user: str, lifetime: float, now: float | None, issuer: str | None, identity: str | None
) -> dict[str, Any]:
    if not user or any(character.isspace() or not character.isprintable() for character in user):
        raise TokenError(f"not a user name: {user!r}")
    if lifetime <= 0:
        raise TokenError("a token needs a lifetime above zero")
    issued = int(time.time() if now is None else now)
    # Slurm refuses an `exp` that is missing or not whole.
    found = {"iat": issued, "exp": min(issued + max(1, int(lifetime)), LAST_SECOND), "sun": user}
    extra = {"iss": issuer, "jti": identity}
    return found | {name: value for name, value in extra.items() if value is not None}


def new_identity() -> str:
    """A fresh `jti`, for callers that want each token to be tellable from the next."""
    return str(uuid.uuid4())


def _seconds(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _rsa(pem: bytes) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise TokenError("not a private key in PEM form") from error
    if not isinstance(key, RSAPrivateKey):
        raise TokenError("RS256 needs an RSA key")
    return key


def _jwk(kid: str, key: RSAPublicKey) -> dict[str, str]:
    numbers = key.public_numbers()
    return {
        "alg": "RS256",
        "kty": "RSA",
        "use": "sig",
        "kid": kid,
        "n": _base64(numbers.n),
        "e": _base64(numbers.e),
    }


def _base64(number: int) -> str:
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
