# SPDX-License-Identifier: Apache-2.0
"""SSH host keys: made once for a LoginSet and never again, so that nobody is warned of a changed host."""

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ecdsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey

KINDS = ("rsa", "ecdsa", "ed25519")


def private_name(kind: str) -> str:
    """The file of a private key; also its key in the Secret."""
    return f"ssh_host_{kind}_key"


def public_name(kind: str) -> str:
    """The file of a public key; also its key in the Secret."""
    return f"{private_name(kind)}.pub"


def host_keys() -> Mapping[str, bytes]:
    """A pair of every kind, by file name. Takes a second or two."""
    made: dict[str, PrivateKey] = {
        "rsa": generate_rsa(65537, 4096),
        "ecdsa": generate_ecdsa(SECP256R1()),
        "ed25519": Ed25519PrivateKey.generate(),
    }
    files: dict[str, bytes] = {}
    for kind, key in made.items():
        files[private_name(kind)] = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        files[public_name(kind)] = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    return files
