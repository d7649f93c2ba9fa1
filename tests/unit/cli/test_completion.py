# SPDX-License-Identifier: Apache-2.0
"""Completion of verbs and options, in a shell and through kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "release" / "kubectl_complete-slinky"


@pytest.mark.parametrize(
    ("words", "found"),
    [(["que"], ["queue"]), (["queue", "--wa"], ["--watch"]), (["logs", "--fol"], ["--follow"]), (["lab", "u"], ["up"])],
)
def test_kubectl_completes_verbs_and_options(tmp_path: Path, words: list[str], found: list[str]) -> None:
    program = tmp_path / "kubectl-slinky"
    program.write_text(f"#!{sys.executable}\nfrom slinky.cli.main import run\nrun()\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([SCRIPT, *words], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*found, ":4"]


def test_kubectl_completes_an_empty_word_with_every_verb(tmp_path: Path) -> None:
    program = tmp_path / "kubectl-slinky"
    program.write_text(f"#!{sys.executable}\nfrom slinky.cli.main import run\nrun()\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([SCRIPT, ""], env=environment, capture_output=True, text=True, check=True)
    assert {"explain", "logs", "gather", ":4"} <= set(done.stdout.splitlines())
