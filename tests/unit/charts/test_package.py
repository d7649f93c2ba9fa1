# SPDX-License-Identifier: Apache-2.0
"""Chart packages: the same bytes for the same sources, with the version and the images of a release."""

import io
import tarfile
from pathlib import Path

import pytest
import yaml
from charts.package import CHARTS, PackageError, main, read_images, write_packages

IMAGES = {"registry": "registry.example/slinky", "tag": "1.2.3", "digests": {"slinky": "sha256:" + "a" * 64}}


def read(package: Path, name: str) -> str:
    with tarfile.open(package) as tar:
        file = tar.extractfile(name)
        assert isinstance(file, io.BufferedReader)
        return file.read().decode()


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = write_packages(tmp_path / "first", "1.2.3", IMAGES, epoch=1_700_000_000)
    second = write_packages(tmp_path / "second", "1.2.3", IMAGES, epoch=1_700_000_000)
    assert [package.name for package in first] == [f"{chart}-1.2.3.tgz" for chart in CHARTS]
    assert [package.read_bytes() for package in first] == [package.read_bytes() for package in second]


def test_a_package_carries_its_version_and_the_digests_of_its_images(tmp_path: Path) -> None:
    for package, chart in zip(write_packages(tmp_path, "1.2.3", IMAGES, epoch=0), CHARTS, strict=True):
        facts = yaml.safe_load(read(package, f"{chart}/Chart.yaml"))
        values = yaml.safe_load(read(package, f"{chart}/values.yaml")) or {}
        assert facts["version"] == "1.2.3"
        assert {item["version"] for item in facts.get("dependencies", ())} <= {"1.2.3"}
        assert facts["appVersion"] == ("26.05" if chart == "slurm" else "1.2.3")
        assert values.get("global") == (None if chart == "slurm-operator-crds" else IMAGES)


def test_a_package_contains_the_charts_that_it_depends_on(tmp_path: Path) -> None:
    write_packages(tmp_path, "1.2.3", {}, epoch=0)
    inner = read(tmp_path / "slurm-operator-1.2.3.tgz", "slurm-operator/charts/slurm-operator-crds/Chart.yaml")
    assert yaml.safe_load(inner)["version"] == "1.2.3"


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3 ", "latest"])
def test_a_version_that_helm_refuses_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(PackageError, match="semantic version"):
        write_packages(tmp_path, version, IMAGES, epoch=0)


@pytest.mark.parametrize("text", ["", "global: {}", "global: {registry: registry.example}", "a: 1"])
def test_a_file_without_digests_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.yaml").write_text(text)
    with pytest.raises(PackageError, match="make images"):
        read_images(tmp_path / "images.yaml")


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--images", str(tmp_path / "none.yaml"), "--output", str(tmp_path)]) == 1
    assert "none.yaml does not exist" in capsys.readouterr().err
