# SPDX-License-Identifier: Apache-2.0
"""Laws of the recipes: any architecture, no shell over a person's words, signals reach the daemon."""

import re
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[3] / "images"
RECIPES = sorted(IMAGES.glob("*/Containerfile"))
SCRIPTS = sorted(path for path in IMAGES.glob("*/*") if path.read_bytes().startswith(b"#!"))
#: Made from nothing, or from a tree that is added.
ROOTS = {"base", "pause"}


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", [*RECIPES, *SCRIPTS], ids=named)
def test_no_architecture_is_named(path: Path) -> None:
    assert not re.search(r"amd64|arm64|x86.64|aarch64", path.read_text())


@pytest.mark.parametrize("path", RECIPES, ids=named)
def test_what_it_starts_from_can_be_chosen(path: Path) -> None:
    first = next(line for line in path.read_text().splitlines() if line.startswith(("ARG", "FROM")))
    assert first.startswith("ARG PARENT=" if path.parent.name not in ROOTS else "FROM scratch")


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_no_shell_reads_what_a_person_wrote(path: Path) -> None:
    code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    assert not re.search(r"\beval\b|\b(ba)?sh -c\b|`", code.replace("\\`", ""))
    assert re.search(r"^set -e?uf?$", code, re.MULTILINE)


@pytest.mark.parametrize("path", [path for path in RECIPES if "ENTRYPOINT" in path.read_text()], ids=named)
def test_an_init_forwards_signals_to_a_daemon_that_replaced_its_script(path: Path) -> None:
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", path.read_text(), re.MULTILINE)
    assert entry
    words = re.findall(r'"([^"]+)"', entry[1])
    if path.parent.name in {"slinky", "pause", "completer"}:  # handle signals, and end their own children
        return
    assert words[:2] == ["/usr/bin/tini", "--"]
    script = path.parent / "entrypoint"
    if script.exists():
        assert re.search(r"^exec ", script.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_a_daemon_of_slurm_is_started_by_its_path(path: Path) -> None:
    """When told to reconfigure it starts itself anew by the name it was called with."""
    assert not re.search(r"(?<![/\w-])(slurmctld|slurmdbd|slurmd|sackd) -D", path.read_text())
