# SPDX-License-Identifier: Apache-2.0
"""Mints tokens that are signed with a private key (RS256), and builds the document with which slurmctld verifies them.

With `AuthAltParameters=jwks=/etc/slurm/jwks.json` slurmctld accepts tokens of every key in that document. To rotate
keys, publish the new key, sign with it, then remove the old key.
"""

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
    """Mint a token for `user`, signed with a private key whose public half is published as `kid`."""
    header = {"alg": "RS256", "typ": "JWT", "kid": kid}
    signed = signing_input(header, build_claims(user, lifetime, now, issuer, identity))
    return f"{signed}.{encode_base64url(_load_rsa_key(private_pem).sign(signed.encode(), PKCS1v15(), SHA256()))}"


def build_jwks(keys: dict[str, bytes]) -> str:
    """The JWKS document with the public halves of these private keys, by key id."""
    published = [_jwk(kid, _load_rsa_key(pem).public_key()) for kid, pem in sorted(keys.items())]
    return json.dumps({"keys": published}, indent=1)


def _load_rsa_key(pem: bytes) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise TokenError("the key is not a private key in PEM format") from error
    if not isinstance(key, RSAPrivateKey):
        raise TokenError("the key is not an RSA key, which RS256 needs")
    return key


def _jwk(kid: str, key: RSAPublicKey) -> dict[str, str]:
    numbers = key.public_numbers()
    return {
        "alg": "RS256",
        "kty": "RSA",
        "use": "sig",
        "kid": kid,
        "n": _encode_integer(numbers.n),
        "e": _encode_integer(numbers.e),
    }


def _encode_integer(number: int) -> str:
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
