# SPDX-License-Identifier: Apache-2.0
"""`make readme-test`: a person who follows only the README, in a fresh clone and with an empty home folder.

The home folder and the cache of artifacts are new. The cache is filled by `slinky lab prepare --import` of an export of
this machine, as in a class room, because building Kubernetes again would show nothing about the README. The tests
depend on each other, in the order of this file, as the steps of a reader do.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.doc_blocks import ROOT, all_blocks
from tests.support.lab_traces import machine_wide, traces, wait_clean

from slinky.cli.demo import NAME as DEMO
from slinky.lab import lab_state
from slinky.lab.prepare.archive import export_artifacts
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
README = (ROOT / "README.md").read_text()
START = all_blocks()["README.md#slinky"].commands()
LAB = all_blocks()["README.md#a-lab-in-one-minute"].commands()
#: The labs that the README starts: by `make demo`, and by `slinky lab up` without a name.
LABS = (DEMO, "lab")
#: pip keeps downloads, and asks rustc for its version, which keeps settings where rustup has installed it.
OF_PIP = (".cache/pip/", ".rustup/")
#: Variables that lead to the caches and settings of the person who runs the tests.
PERSONAL = re.compile(r"(XDG|SLINKY|PYTHON|VIRTUAL_ENV|HELM|KUBE|GO(PATH|CACHE|MODCACHE|ENV)$).*")


@dataclass(frozen=True)
class Reader:
    """A person with a fresh clone, an empty home folder and a new cache."""

    folder: Path
    before: frozenset[str]

    @property
    def clone(self) -> Path:
        """The checkout of the reader."""
        return self.folder / "slinky"

    @property
    def home(self) -> Path:
        """The home folder of the reader."""
        return self.folder / "home"

    def run(self, script: str, folder: Path | None = None) -> str:
        """Run commands that must succeed, in the clone; what they print."""
        kept = {name: value for name, value in os.environ.items() if not PERSONAL.fullmatch(name)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder or self.clone,
            env={**kept, "HOME": str(self.home), "SLINKY_CACHE": str(self.folder / "cache")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode} of\n{script}\n{done.stdout[-6000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader who has cloned the last commit of this checkout."""
    require_unused_names()
    reader = Reader(tmp_path_factory.mktemp("readme"), frozenset(machine_wide()))
    reader.home.mkdir()
    reader.run(f"git clone --quiet '{ROOT}' slinky", reader.folder)
    yield reader
    for name in LABS:
        subprocess.run([reader.clone / ".venv/bin/slinky", "lab", "down", "--name", name], check=False)
    shutil.rmtree(reader.folder)  # gigabytes, which pytest would keep


def require_unused_names() -> None:
    """Fail rather than replace a lab of the person who runs the tests."""
    present = sorted(set(LABS) & set(lab_state.names()))
    assert not present, f"the README starts labs of these names; remove yours first: {', '.join(present)}"


def stated(command: str) -> str:
    """A command, which the README must name."""
    assert command in README
    return command


def test_the_parts_that_another_machine_has_exported_are_used(reader: Reader) -> None:
    inventory, file = ArtifactInventory.of(), reader.folder / "parts.tar.zst"
    export_artifacts(inventory.store, inventory.artifacts.values(), file, Progress())
    reader.run("make setup")
    output = reader.run(f".venv/bin/slinky lab prepare --import '{file}'")
    file.unlink()
    assert f"{len(inventory.artifacts)} parts are new" in output
    assert "parts are built once" not in output


def test_the_machine_is_checked_on_one_screen(reader: Reader) -> None:
    table = reader.run(stated(".venv/bin/slinky lab check"))
    rows = {line.split("  ")[0].strip() for line in table.splitlines()[1:]}
    assert {"user", "kernel", "Python", "memory", "disk of the cache", "cgroups", "overlay file system"} <= rows
    assert "missing" not in table
    assert len(table.splitlines()) <= 24, "it fits on one screen"


def test_the_demo_runs(reader: Reader) -> None:
    require_unused_names()
    output = reader.run(next(line for line in START.splitlines() if line.startswith("make demo")))
    for workload in ("Job gpu", "PodGroup pair", "JobSet sweep", "sbatch beside pods", "sbatch on whole nodes"):
        assert re.search(rf"^{workload} +[0-9]+ +COMPLETED", output, re.MULTILINE), output
    assert re.search(r"^LeaderWorkerSet serving +[0-9]+ +RUNNING", output, re.MULTILINE), output
    further = output.partition("Look further:\n")[2].partition("Remove the demo:")
    commands = "\n".join(line.strip() for line in further[0].splitlines())
    assert further[2].strip() == "make demo-down"
    assert "slurm-controller-0" in reader.run(f". .venv/bin/activate\n{commands}")


def test_the_lab_of_one_minute_runs_beside_it(reader: Reader) -> None:
    output = reader.run(LAB)
    assert "node3" in output
    assert "lab lab is removed" in output


def test_no_trace_stays(reader: Reader) -> None:
    reader.run(stated("make demo-down"))
    for name in LABS:
        assert traces(name) == []
        wait_clean(name, set(reader.before))
    assert reader.run("git status --porcelain") == "", "the checkout is as it was cloned"
    kept = {str(path.relative_to(reader.home)) for path in reader.home.rglob("*") if path.is_file()}
    assert not {path for path in kept if not path.startswith(OF_PIP)}, "only pip keeps files in the home folder"
