# SPDX-License-Identifier: Apache-2.0
"""What a person writes for a registry, what a registry answers, and the file that the charts read."""

from pathlib import Path

import pytest
import yaml

from slinky.lab.errors import LabError
from slinky.lab.prepare.publish import Destination, default_authfile, explain, render_values, write_at_once


@pytest.mark.parametrize(
    ("registry", "tag", "platforms", "said"),
    [
        ("", "1", "", "is not the name of a registry"),
        ("https://registry.example/slinky", "1", "", "without https://"),
        ("registry.example/Slinky", "1", "", "small letters"),
        ("registry.example/slinky/", "1", "", "is not the name of a registry"),
        ("registry.example/a b", "1", "", "is not the name of a registry"),
        ("registry.example/slinky", "", "", "is not a tag"),
        ("registry.example/slinky", "a:b", "", "is not a tag"),
        ("registry.example/slinky", "x" * 200, "", "is not a tag"),
        ("registry.example/slinky", "1", "amd64", "amd64 is no platform"),
        ("registry.example/slinky", "1", "linux/amd64,", "is no platform"),
        ("registry.example/slinky", "1", "linux/s390x", "choose from linux/amd64,linux/arm64"),
    ],
)
def test_a_wrong_destination_is_refused_with_the_next_step(registry: str, tag: str, platforms: str, said: str) -> None:
    with pytest.raises(LabError) as problem:
        Destination.parse(registry, tag, platforms)
    assert said in str(problem.value)


@pytest.mark.parametrize("registry", ["registry.example", "localhost:5000/slinky", "10.0.0.1:5000/a/b-c/d_e"])
def test_a_destination_names_its_images(registry: str) -> None:
    place = Destination.parse(registry, "0.1.0", "linux/amd64,linux/arm64")
    assert place.reference("slurmd") == f"{registry}/slurmd:0.1.0"
    assert place.reference("slurmd", "arm64") == f"{registry}/slurmd:0.1.0-arm64"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is not a file"):
        Destination.parse("registry.example", "1", ca=str(tmp_path / "none"))


def test_the_login_of_podman_or_docker_is_found(tmp_path: Path) -> None:
    docker = tmp_path / ".docker" / "config.json"
    own = tmp_path / "own.json"
    environment = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "none")}
    assert default_authfile(environment) is None
    docker.parent.mkdir()
    docker.write_text("{}")
    assert default_authfile(environment) == docker
    own.write_text("{}")
    assert default_authfile({**environment, "REGISTRY_AUTH_FILE": str(own)}) == own


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("Error: ... tls: failed to verify certificate: x509: certificate signed by unknown authority", "CA="),
        ("Error: x509: certificate has expired or is not yet valid", "renew"),
        ("Error: x509: certificate is valid for a.example, not b.example", "host name"),
        ("Error: http: server gave HTTP response to HTTPS client", "TLS"),
        ("Error: trying to reuse blob: unauthorized: authentication required", "podman login"),
        ("Error: writing blob: requested access to the resource is denied", "podman login"),
        ("Error: dial tcp: lookup registry.example: no such host", "name and port"),
        ("Error: something new", "nothing is lost"),
    ],
)
def test_every_refusal_of_a_registry_has_a_next_step(answer: str, hint: str) -> None:
    problem = explain("registry.example/slinky", f"buildah failed with 125:\nCopying blob\n{answer}")
    assert hint in problem.hint
    assert answer in problem.what


def test_the_values_pin_every_image(tmp_path: Path) -> None:
    place = Destination.parse("registry.example/slinky", "0.1.0")
    text = render_values(place, {"slurmd": "sha256:" + "b" * 64, "slinky": "sha256:" + "a" * 64})
    write_at_once(tmp_path / "build" / "images.yaml", text)
    values = yaml.safe_load((tmp_path / "build" / "images.yaml").read_text())["global"]
    assert (values["registry"], values["tag"]) == ("registry.example/slinky", "0.1.0")
    assert list(values["digests"]) == ["slinky", "slurmd"]
    assert [file.name for file in (tmp_path / "build").iterdir()] == ["images.yaml"]
