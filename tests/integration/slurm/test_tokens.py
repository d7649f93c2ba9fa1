# SPDX-License-Identifier: Apache-2.0
"""Tokens as slurmctld sees them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from slinky.lab.slurm.cluster import Beside
from slinky.slurm import AuthError, FileToken, SlurmClient
from slinky.slurm.jwks import build_jwks, mint_rs256
from slinky.slurm.tokens import read_claims

PUBLISH = 'printf "%s" "$1" > /etc/slurm/jwks.json; chmod 644 /etc/slurm/jwks.json'
KEEP = "cp -p /etc/slurm/slurm.conf /tmp/was"
ACCEPT = "sed -i 's#^AuthAltParameters=.*#&,jwks=/etc/slurm/jwks.json#' /etc/slurm/slurm.conf"
RESTORE = "cp -p /tmp/was /etc/slurm/slurm.conf; rm /etc/slurm/jwks.json"


@pytest.fixture
def published(slurm: Beside) -> Iterator[bytes]:
    """A private key whose public half slurmctld has been told."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    slurm.exec("sh", "-c", f"{PUBLISH}; {KEEP}; {ACCEPT}", "sh", build_jwks({"one": pem}))
    slurm.stop("slurmctld", signal=15)
    slurm.start("slurmctld")
    yield pem
    slurm.exec("sh", "-c", RESTORE)
    slurm.stop("slurmctld", signal=15)
    slurm.start("slurmctld")


async def test_slurmctld_accepts_tokens_of_published_keys_and_no_others(slurm: Beside, published: bytes) -> None:
    async with SlurmClient(slurm.url, mint_rs256(published, "slurm", kid="one")) as client:
        assert await client.nodes()
    async with SlurmClient(slurm.url, mint_rs256(published, "slurm", kid="unknown")) as client:
        with pytest.raises(AuthError):
            await client.nodes()


def test_we_read_what_scontrol_mints(slurm: Beside) -> None:
    printed = slurm.exec("scontrol", "token", "username=alice", "lifespan=600")
    found = read_claims(printed.strip().removeprefix("SLURM_JWT="))
    assert found.user == "alice"
    assert found.expires is not None
    assert found.issued is not None
    assert found.expires - found.issued == 600


async def test_a_token_that_is_replaced_in_its_file_is_taken_up_without_a_restart(
    slurm: Beside, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("not.a.token")
    async with SlurmClient(slurm.url, FileToken(path)) as client:
        with pytest.raises(AuthError):
            await client.nodes()
        path.write_text(slurm.token())
        assert await client.nodes()
