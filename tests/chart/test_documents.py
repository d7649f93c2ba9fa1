# SPDX-License-Identifier: Apache-2.0
"""Manifests and values in the documentation are accepted by the real API server, and its helm commands render."""

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import Helm
from tests.integration.api.conftest import Kubectl
from tests.support.doc_blocks import ROOT, all_blocks
from tests.support.doc_table import BLOCKS, Apply, Merge, Values

ALL = all_blocks()
VALUES = [
    (key, chart) for key, treatment in BLOCKS.items() if isinstance(treatment, Values) for chart in treatment.charts
]
HELM = re.compile(r"^helm (?:install|upgrade) .* charts/.*$", re.MULTILINE)
COMMANDS = [
    (block.key, line) for block in ALL.values() if block.language == "sh" for line in HELM.findall(block.commands())
]
#: Options of install and upgrade that `helm template` does not have.
NOT_RENDERED = {"--reuse-values", "--reset-then-reuse-values", "--wait"}

IMAGES = "global: {registry: registry.example/slinky}"

#: Objects into which fragments are merged.
SPECS: dict[str, dict[str, Any]] = {
    "NodeSet": {"controllerRef": {"name": "slurm"}},
    "Controller": {"slurmKeyRef": {"name": "keys", "key": "slurm"}, "jwtKeyRef": {"name": "keys", "key": "jwt"}},
    "Accounting": {
        "slurmKeyRef": {"name": "keys", "key": "slurm"},
        "jwtKeyRef": {"name": "keys", "key": "jwt"},
        "storageConfig": {"host": "mariadb", "passwordKeyRef": {"name": "keys", "key": "password"}},
    },
    "Job": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
}


def object_of(kind: str, fragment: dict[str, Any]) -> dict[str, Any]:
    """An object of this kind with the fragment, which is the object's `spec` or a part of it."""
    version = "batch/v1" if kind == "Job" else "slinky.slurm.net/v1beta1"
    spec = SPECS[kind] | fragment.get("spec", fragment)
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "example"}, "spec": spec}


def accept(kubectl: Kubectl, space: str, *objects: dict[str, Any]) -> None:
    """Let the API server check the objects, in a namespace of the test whatever they name; nothing is kept."""
    for item in objects:
        item["metadata"].pop("namespace", None)
    words = ("apply", "--server-side", "--validate=strict", "--dry-run=server", "-n", space, "-f", "-")
    done = kubectl(*words, input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("key", [key for key, treatment in BLOCKS.items() if isinstance(treatment, Apply)])
async def test_the_api_server_accepts_a_manifest(kubectl: Kubectl, space: str, key: str) -> None:
    accept(kubectl, space, *yaml.safe_load_all(ALL[key].text))


@pytest.mark.parametrize(
    ("key", "kind"), [(key, treatment.kind) for key, treatment in BLOCKS.items() if isinstance(treatment, Merge)]
)
async def test_the_api_server_accepts_a_fragment(kubectl: Kubectl, space: str, key: str, kind: str) -> None:
    accept(kubectl, space, object_of(kind, yaml.safe_load(ALL[key].text)))


async def test_a_misspelt_field_is_found(kubectl: Kubectl, space: str) -> None:
    with pytest.raises(AssertionError, match="replicass: field not declared"):
        accept(kubectl, space, object_of("NodeSet", {"replicass": 2}))


@pytest.mark.parametrize(("key", "chart"), VALUES)
async def test_helm_renders_values(kubectl: Kubectl, helm: Helm, space: str, key: str, chart: str) -> None:
    objects = helm.render(chart, yaml.safe_load(ALL[key].text), space=space)
    ours = [item for item in objects if item["apiVersion"].startswith(("slinky.slurm.net/", "v1", "apps/"))]
    accept(kubectl, space, *ours)


@pytest.mark.parametrize(("key", "line"), COMMANDS)
def test_helm_renders_what_a_command_installs(helm: Helm, tmp_path: Path, key: str, line: str) -> None:
    (tmp_path / "build").mkdir()
    for folder in ("charts", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    given = shlex.split(line, comments=True)[2:]
    words = [word for word in given if word not in NOT_RENDERED]
    if "--reuse-values" in given:  # the release has the values of its installation
        words += ["--values", "build/images.yaml"]
    for name in [word for before, word in pairwise(words) if before in ("-f", "--values")]:
        if not (tmp_path / name).exists():  # a file of the reader, or what `make images` writes
            (tmp_path / name).write_text(IMAGES if name == "build/images.yaml" else "")
    helm.template(*words, folder=tmp_path)
