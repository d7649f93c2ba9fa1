# SPDX-License-Identifier: Apache-2.0
"""sshd of login hosts and workers: sshd_config and host keys. Pure, except for the randomness of the keys.

A site's own lines are appended to sshd_config. sshd uses the first value of a setting, so a site cannot override the
operator's lines. Text with control characters is rejected.
"""

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ecdsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from slinky.kube.errors import Blocked

_COMMON = ("Include /etc/ssh/sshd_config.d/*.conf", "UsePAM yes", "Subsystem sftp internal-sftp")
LOGIN = (*_COMMON, "X11Forwarding yes")
WORKER = (*_COMMON, "AuthenticationMethods publickey password")

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey
#: Types of host keys.
KEY_TYPES = ("rsa", "ecdsa", "ed25519")


def login_config(extra: str) -> str:
    """Return the sshd_config of login hosts."""
    return _config(LOGIN, extra)


def worker_config(extra: str) -> str:
    """Return the sshd_config of workers, where PAM admits only users with a job."""
    return _config(WORKER, extra)


def _config(lines: tuple[str, ...], extra: str) -> str:
    if any(not (character.isprintable() or character in "\n\t") for character in extra):
        raise Blocked("InvalidConfig", "extraSshdConfig contains control characters; remove them")
    return "\n".join((*lines, *extra.splitlines())) + "\n"


def private_name(key_type: str) -> str:
    """Return the file name of a private key, which is also its key in the Secret."""
    return f"ssh_host_{key_type}_key"


def public_name(key_type: str) -> str:
    """Return the file name of a public key, which is also its key in the Secret."""
    return f"{private_name(key_type)}.pub"


def generate_host_keys() -> Mapping[str, bytes]:
    """Return a key pair of every type, by file name; takes a second or two."""
    pairs: dict[str, PrivateKey] = {
        "rsa": generate_rsa(65537, 4096),
        "ecdsa": generate_ecdsa(SECP256R1()),
        "ed25519": Ed25519PrivateKey.generate(),
    }
    files: dict[str, bytes] = {}
    for key_type, key in pairs.items():
        files[private_name(key_type)] = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        files[public_name(key_type)] = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    return files
