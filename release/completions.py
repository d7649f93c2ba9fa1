# SPDX-License-Identifier: Apache-2.0
"""Completion scripts of `slinky` for the usual shells, as the command itself prints them."""

import os
import subprocess
import sys
from pathlib import Path

#: File name by shell, as the folders of completions expect it.
FILES = {"bash": "slinky.bash", "zsh": "_slinky", "fish": "slinky.fish"}


def write_scripts(folder: Path) -> None:
    """Write one script for each shell."""
    folder.mkdir(parents=True)
    for shell, name in FILES.items():
        environment = {**os.environ, "_SLINKY_COMPLETE": f"source_{shell}"}
        argv = [sys.executable, "-c", "import sys; sys.argv = ['slinky']; from slinky.cli.main import run; run()"]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
        (folder / name).write_text(done.stdout.strip() + "\n")
