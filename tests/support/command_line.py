# SPDX-License-Identifier: Apache-2.0
"""Runs the `slinky` command as a person does, as a process of its own."""

import os
import subprocess
import sys


def slinky(*argv: str, input: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `environment` adds to that of the test."""
    return subprocess.run(
        [sys.executable, "-m", "slinky.cli", *argv],
        input=input,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def slinky_output(*argv: str, **options: str) -> str:
    """The standard output of a command that must succeed."""
    done = slinky(*argv, **options)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout
