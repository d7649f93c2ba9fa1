# SPDX-License-Identifier: Apache-2.0
"""The command speaks in sentences: wrong input names what is wrong and what to do."""

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from slinky.cli.main import SlinkyGroup, app
from slinky.lab.errors import LabError
from slinky.lab.prepare import tools
from slinky.lab.progress import Progress


def run(*argv: str) -> Result:
    return CliRunner().invoke(app, list(argv))


@pytest.fixture(autouse=True)
def folders_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLINKY_STATE", str(tmp_path / "labs"))
    monkeypatch.setenv("SLINKY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "SLURM_JWT", "SLURM_JWT_FILE", "SLINKY_SLURM_URL"):
        monkeypatch.delenv(name, raising=False)


def commands(group: Any, *path: str) -> list[tuple[str, ...]]:
    below = getattr(group, "commands", {}).items()
    return [path, *(found for name, command in below for found in commands(command, *path, name))]


def all_commands() -> list[tuple[str, ...]]:
    return [(), *(found for name in SlinkyGroup.table for found in commands(SlinkyGroup.load(name), name))]


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["lab", "up", "--bogus"], 2, "No such option"),
        (["lab", "up", "--kube", "1.2"], 1, "Kubernetes 1.2 is not supported by the lab"),
        (["lab", "up", "--name", "UPPER"], 1, "lab name 'UPPER' is not usable"),
        (["lab", "prepare", "--kube", "9"], 1, "choose one of: 1.36"),
        (["lab", "status"], 1, "there is no lab named lab"),
        (["lab", "kubeconfig", "--name", "gone"], 1, "slinky lab up --name gone"),
        (["lab", "exec", "slurm", "true"], 1, "there is no lab named lab"),
        (["lab", "down", "-o", "json"], 0, '"removed": false'),
        (["lab", "list", "-o", "json"], 0, "[]"),
        (["--version"], 0, "slinky 0."),
        (["version", "--client"], 0, "client: 0."),
        (["explein"], 2, "Did you mean explain?"),
        (["queue"], 1, "set --url and SLURM_JWT"),
        (["queue", "--url", "http://127.0.0.1:1"], 5, "there is no token"),
        (["queue", "--url", "http://127.0.0.1:1", "--token-file", "/nowhere"], 1, "cannot be read"),
        (["queue", "--kubeconfig", "/nowhere"], 2, "slinky: there is no kubeconfig at /nowhere"),
        (["version"], 1, "client: 0."),
        (["queue", "--url", "nonsense"], 2, "is not http://HOST:PORT"),
        (["queue", "-t", "SLEEPING"], 2, "is not a state of a job, such as PENDING"),
        (["queue", "-t", "RUNNINGS"], 2, "did you mean RUNNING"),
        (["nodes", "-t", "drian"], 2, "did you mean DRAIN"),
        (["gather", "--url", "http://127.0.0.1:1"], 4, "nothing could be read"),
        (["gather", "--file", "/nowhere/x", "--url", "http://127.0.0.1:1"], 1, "cannot be written"),
        (["logs", "7", "-o", "yaml"], 2, "logs are lines"),
        (["logs", "7", "--tail", "-1"], 2, "--tail"),
        (["logs", "pod/x", "--url", "http://127.0.0.1:1"], 2, "a pod needs Kubernetes"),
        (["shell", "--url", "http://127.0.0.1:1"], 2, "leave out --url"),
        (["shell"], 1, "set --url and SLURM_JWT"),
        (["queue", "--watch", "--interval", "0"], 2, "--interval"),
        (["whatif", "--url", "http://127.0.0.1:1"], 2, "name a change"),
        (["whatif", "--qos", "high"], 2, "change a job: name it"),
        (["whatif", "--add", "gpu"], 2, "is not PARTITION=COUNT"),
        (["whatif", "7", "--time", "soon"], 2, "is not a time such as"),
    ],
)
def test_wrong_input_ends_in_a_sentence_and_a_code(argv: list[str], code: int, said: str) -> None:
    result = run(*argv)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_the_table_has_the_help_of_each_command() -> None:
    for name, (_, text) in SlinkyGroup.table.items():
        help_text = SlinkyGroup.load(name).help or ""
        assert help_text.split()[:1] == text.split()[:1], name


def test_slurm_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "a.b.c")
    result = run("queue", "--url", "http://127.0.0.1:1")
    assert (result.exit_code, "Slurm cannot be reached" in result.output) == (4, True), result.output


def test_a_lab_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "a lab needs root" in run("lab", "up").output


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match="this machine lacks debootstrap, iproute2, mount, util-linux"):
        tools.require_tools(Progress(quiet=True))
