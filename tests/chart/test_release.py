# SPDX-License-Identifier: Apache-2.0
"""What a release publishes, without images: complete, the same bytes twice, and refused if its parts do not fit."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from release.kit import PROVENANCE, SUMS, ReleaseError, ReleaseKit
from release.krew import PLATFORMS
from tests.chart.helm import Helm

from slinky import __version__
from slinky.lab.prepare.inventory import SLURM

DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(("slinky", *SLURM))}
ARCHIVE = f"kubectl-slinky-{__version__}-linux-amd64.tar.gz"
IMAGES = {"registry": "registry.example/slinky", "tag": __version__, "digests": DIGESTS}


@pytest.fixture(scope="module")
def kit(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> ReleaseKit:
    """A release in a folder."""
    folder = tmp_path_factory.mktemp("release")
    dependencies = folder / "wheels"
    dependencies.mkdir()
    (dependencies / "example-1-py3-none-any.whl").write_bytes(b"wheel")
    kit = ReleaseKit(
        version=__version__,
        images=IMAGES,
        output=folder / "first",
        epoch=1_700_000_000,
        url="https://release.example/slinky",
        helm=helm.command,
        wheels=dict.fromkeys(PLATFORMS, dependencies),
        commit="0123456789abcdef",
    )
    kit.write()
    return kit


def test_two_runs_give_the_same_digests(kit: ReleaseKit) -> None:
    second = dataclasses.replace(kit, output=kit.output.with_name("second"))
    second.write()
    assert (second.output / SUMS).read_text() == (kit.output / SUMS).read_text()


def test_a_release_that_fails_leaves_the_one_before_as_it_is(kit: ReleaseKit) -> None:
    before = (kit.output / SUMS).read_text()
    with pytest.raises(ReleaseError, match="failed"):
        dataclasses.replace(kit, helm="false").write()
    assert (kit.output / SUMS).read_text() == before
    kit.write()
    assert (kit.output / SUMS).read_text() == before
    assert not kit.output.with_name("first.partial").exists()


def test_archives_of_images_are_listed_like_all_other_files(kit: ReleaseKit, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(b"image")
    archives = {"slinky": tmp_path / "image.tar"}
    whole = dataclasses.replace(kit, output=kit.output.with_name("archives"), archives=archives)
    whole.write()
    name = f"images/slinky-{__version__}.tar"
    assert f"{hashlib.sha256(b'image').hexdigest()}  {name}\n" in (whole.output / SUMS).read_text()
    assert name in (whole.output / PROVENANCE).read_text()


def test_the_checksums_list_every_file(kit: ReleaseKit) -> None:
    done = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=kit.output, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    listed = {line.split("  ", 1)[1] for line in (kit.output / SUMS).read_text().splitlines()}
    files = {str(path.relative_to(kit.output)) for path in kit.output.rglob("*") if path.is_file()}
    assert listed == files - {SUMS}
    expected = {
        f"python/slinky-{__version__}-py3-none-any.whl",
        f"python/slinky-{__version__}.tar.gz",
        f"charts/slurm-{__version__}.tgz",
        "install.yaml",
        "kustomize/kustomization.yaml",
        "slinky.krew.yaml",
        "completions/slinky.bash",
        "completions/_slinky",
        "CHANGES.md",
        PROVENANCE,
    }
    assert expected <= listed


def test_the_provenance_names_every_file_image_and_source(kit: ReleaseKit) -> None:
    statement = json.loads((kit.output / PROVENANCE).read_text())
    subjects = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    sums = (line.split("  ", 1) for line in (kit.output / SUMS).read_text().splitlines())
    files = {name: digest for digest, name in sums if name != PROVENANCE}
    images = {f"registry.example/slinky/{name}": digest.removeprefix("sha256:") for name, digest in DIGESTS.items()}
    assert subjects == files | images
    definition = statement["predicate"]["buildDefinition"]
    sources = {item["uri"]: item["digest"] for item in definition["resolvedDependencies"]}
    assert sources["git:HEAD"] == {"gitCommit": "0123456789abcdef"}
    assert "file:requirements/runtime.txt" in sources
    assert definition["externalParameters"]["version"] == __version__


def test_the_charts_name_where_the_release_is(kit: ReleaseKit) -> None:
    with tarfile.open(kit.output / f"charts/slurm-operator-{__version__}.tgz") as package:
        member = package.extractfile("slurm-operator/Chart.yaml")
        assert member
        chart = yaml.safe_load(member.read())
    assert chart["home"] == kit.url
    assert yaml.safe_load(chart["annotations"]["artifacthub.io/links"])[0]["url"] == kit.url


def test_install_yaml_has_the_kinds_and_the_images_of_the_release(kit: ReleaseKit) -> None:
    objects = [item for item in yaml.safe_load_all((kit.output / "install.yaml").read_text()) if item]
    kinds = [item["kind"] for item in objects]
    assert kinds[0] == "Namespace"
    assert kinds.count("CustomResourceDefinition") == 6
    assert kinds.count("Deployment") == 2
    assert "Pod" not in kinds
    for item in objects:
        if item["kind"] == "Deployment":
            image = item["spec"]["template"]["spec"]["containers"][0]["image"]
            assert image == f"registry.example/slinky/slinky@{DIGESTS['slinky']}"
    base = yaml.safe_load((kit.output / "kustomize/kustomization.yaml").read_text())
    assert base["resources"] == ["install.yaml"]
    assert (kit.output / "kustomize/install.yaml").read_text() == (kit.output / "install.yaml").read_text()


def test_the_krew_manifest_names_the_archive_by_its_digest(kit: ReleaseKit) -> None:
    plugin = yaml.safe_load((kit.output / "slinky.krew.yaml").read_text())
    assert plugin["spec"]["version"] == f"v{__version__}"
    systems = [tuple(item["selector"]["matchLabels"].values()) for item in plugin["spec"]["platforms"]]
    assert systems == [("linux", "amd64"), ("linux", "arm64"), ("darwin", "arm64")]
    for platform in plugin["spec"]["platforms"]:
        archive = kit.output / platform["uri"].removeprefix("https://release.example/slinky/")
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_the_plugin_starts_and_names_what_it_lacks(kit: ReleaseKit, tmp_path: Path) -> None:
    with tarfile.open(kit.output / ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")

    def start(**more: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "SLINKY_PLUGIN_HOME": str(tmp_path / "home"), **more}
        argv = [str(tmp_path / "kubectl-slinky"), "queue"]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    refused = start(PYTHON="false")
    assert (refused.returncode, "needs Python 3.11 or newer" in refused.stderr) == (1, True)
    installed = tmp_path / "home" / __version__ / "bin"
    installed.mkdir(parents=True)
    (installed / "kubectl-slinky").write_text('#!/bin/sh\necho "$@"\n')
    (installed / "kubectl-slinky").chmod(0o755)
    assert start().stdout == "queue\n"


def test_kubectl_completes_the_verbs_of_the_plugin(kit: ReleaseKit, tmp_path: Path) -> None:
    with tarfile.open(kit.output / ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    start = "import sys; sys.argv[0] = 'kubectl-slinky'; from slinky.cli.main import run; run()"
    (tmp_path / "kubectl-slinky").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [str(tmp_path / "kubectl_complete-slinky"), "expl"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["explain", ":4"]


@pytest.mark.parametrize(
    ("version", "tag", "message"),
    [("9.9.9", __version__, "set __version__"), (__version__, "other", "make images")],
)
def test_a_release_whose_parts_do_not_fit_is_refused(kit: ReleaseKit, version: str, tag: str, message: str) -> None:
    output = kit.output.with_name("refused")
    with pytest.raises(ReleaseError, match=message):
        dataclasses.replace(kit, output=output, version=version, images={**IMAGES, "tag": tag}).write()
    assert not output.exists()
