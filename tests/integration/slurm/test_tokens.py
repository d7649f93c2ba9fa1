# SPDX-License-Identifier: Apache-2.0
"""Tokens that slurmctld accepts and refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import AuthError, FileToken, SlurmClient
from slinky.slurm.jwks import build_jwks, mint_rs256
from slinky.slurm.tokens import read_claims

PUBLISH = 'printf "%s" "$1" > /etc/slurm/jwks.json; chmod 644 /etc/slurm/jwks.json'
SAVE = "cp -p /etc/slurm/slurm.conf /tmp/saved.conf"
ACCEPT = "sed -i 's#^AuthAltParameters=.*#&,jwks=/etc/slurm/jwks.json#' /etc/slurm/slurm.conf"
RESTORE = "cp -p /tmp/saved.conf /etc/slurm/slurm.conf; rm /etc/slurm/jwks.json"


@pytest.fixture
def published(slurm: LabSlurm) -> Iterator[bytes]:
    """A private key whose public key slurmctld accepts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    slurm.exec("sh", "-c", f"{PUBLISH}; {SAVE}; {ACCEPT}", "sh", build_jwks({"one": pem}))
    slurm.stop("slurmctld", signal=15)
    slurm.start("slurmctld")
    yield pem
    slurm.exec("sh", "-c", RESTORE)
    slurm.stop("slurmctld", signal=15)
    slurm.start("slurmctld")


async def test_slurmctld_accepts_tokens_of_published_keys_and_no_others(slurm: LabSlurm, published: bytes) -> None:
    async with SlurmClient(slurm.url, mint_rs256(published, "slurm", kid="one")) as client:
        assert await client.nodes()
    async with SlurmClient(slurm.url, mint_rs256(published, "slurm", kid="unknown")) as client:
        with pytest.raises(AuthError):
            await client.nodes()


def test_tokens_of_scontrol_can_be_read(slurm: LabSlurm) -> None:
    printed = slurm.exec("scontrol", "token", "username=alice", "lifespan=600")
    claims = read_claims(printed.strip().removeprefix("SLURM_JWT="))
    assert claims.user == "alice"
    assert claims.expires is not None
    assert claims.issued is not None
    assert claims.expires - claims.issued == 600


async def test_a_token_replaced_in_its_file_is_used_without_a_restart(slurm: LabSlurm, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("not.a.token")
    async with SlurmClient(slurm.url, FileToken(path)) as client:
        with pytest.raises(AuthError):
            await client.nodes()
        path.write_text(slurm.token())
        assert await client.nodes()
