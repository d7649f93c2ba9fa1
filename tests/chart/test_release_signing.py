# SPDX-License-Identifier: Apache-2.0
"""The signature of a release by the key of the releaser: made without a network, and refused after any change."""

import os
import subprocess
from pathlib import Path

import pytest
from release.kit import SUMS, sign
from release.signing import PUBLIC_KEY, Cosign, SigningError, explain, find_cosign

from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

PASSWORD = "sesame"


@pytest.fixture(scope="module")
def program() -> Path:
    return ArtifactInventory.of().cosign(Progress(quiet=True))


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", PASSWORD)


def generate_key(program: Path, folder: Path) -> Path:
    """Write a private and a public key; the path of the private one."""
    environment = {**os.environ, "COSIGN_PASSWORD": PASSWORD}
    subprocess.run([program, "generate-key-pair"], cwd=folder, env=environment, check=True, capture_output=True)
    return folder / "cosign.key"


@pytest.fixture(scope="module")
def key(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key of a releaser."""
    return generate_key(program, tmp_path_factory.mktemp("key"))


@pytest.fixture
def release(program: Path, key: Path, tmp_path: Path) -> Path:
    """A signed release."""
    (tmp_path / SUMS).write_text("0  install.yaml\n")
    sign(tmp_path, Cosign(program, key))
    return tmp_path


def test_the_public_key_of_the_release_verifies_its_checksums(program: Path, release: Path) -> None:
    Cosign(program, release / PUBLIC_KEY).verify_file(release / SUMS)
    assert "BEGIN PUBLIC KEY" in (release / PUBLIC_KEY).read_text()


def test_checksums_that_were_changed_are_refused(program: Path, release: Path) -> None:
    (release / SUMS).write_text("1  install.yaml\n")
    with pytest.raises(SigningError, match="verify-blob"):
        Cosign(program, release / PUBLIC_KEY).verify_file(release / SUMS)


def test_the_signature_of_another_key_is_refused(
    program: Path, release: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = generate_key(program, tmp_path_factory.mktemp("other"))
    with pytest.raises(SigningError, match="verify-blob"):
        Cosign(program, other.with_name(PUBLIC_KEY)).verify_file(release / SUMS)


def test_a_wrong_password_is_named(program: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / SUMS).write_text("")
    monkeypatch.setenv("COSIGN_PASSWORD", "wrong")
    with pytest.raises(SigningError, match="next: set COSIGN_PASSWORD to the password of the key"):
        Cosign(program, key).sign_file(tmp_path / SUMS)


def test_a_file_that_is_no_key_is_named(program: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    with pytest.raises(SigningError, match="next: use a private key that `cosign generate-key-pair` has written"):
        Cosign(program, tmp_path / "key").sign_file(tmp_path / "key")


def test_a_key_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SigningError, match="is not a file\nnext: write a key"):
        find_cosign(tmp_path / "absent.key")


@pytest.mark.parametrize(
    ("output", "next_step"),
    [
        ("Error: signing: x509: certificate signed by unknown authority", "CA=/path/to/ca.crt"),
        ("Error: GET https://r/v2/: UNAUTHORIZED: authentication required", "AUTHFILE"),
        ("Error: GET https://r/v2/x/manifests/1: MANIFEST_UNKNOWN: manifest unknown", "push the images and the charts"),
    ],
)
def test_what_a_registry_refuses_has_a_next_step(output: str, next_step: str) -> None:
    assert next_step in str(explain("cosign sign x", output))
