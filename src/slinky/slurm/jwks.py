# SPDX-License-Identifier: Apache-2.0
"""Tokens signed with a private key (RS256), and the document that lets slurmctld verify them.

`AuthAltParameters=jwks=/etc/slurm/jwks.json` makes slurmctld accept tokens of every key in that document,
so keys can be rotated: publish the new one, sign with it, then remove the old one.
"""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from slinky.slurm.tokens import TokenError, build_claims, encode_base64url, signing_input


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
    """A token that acts as `user`, signed with a private key whose public half slurmctld knows as `kid`."""
    header = {"alg": "RS256", "typ": "JWT", "kid": kid}
    signed = signing_input(header, build_claims(user, lifetime, now, issuer, identity))
    return f"{signed}.{encode_base64url(_rsa(private_pem).sign(signed.encode(), PKCS1v15(), SHA256()))}"


def build_jwks(keys: dict[str, bytes]) -> str:
    """The document that publishes the public halves of these private keys, by key id."""
    published = [_jwk(kid, _rsa(pem).public_key()) for kid, pem in sorted(keys.items())]
    return json.dumps({"keys": published}, indent=1)


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
        "n": _number(numbers.n),
        "e": _number(numbers.e),
    }


def _number(number: int) -> str:
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
