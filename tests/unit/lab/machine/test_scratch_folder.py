# SPDX-License-Identifier: Apache-2.0
"""Temporary folders of processes that end in any way."""

import subprocess
import sys
from pathlib import Path

import pytest

from slinky.lab.machine.scratch_folder import scratch_folder

CHILD = """
import os, signal, sys
from pathlib import Path
from slinky.lab.machine.scratch_folder import scratch_folder
with scratch_folder("s-", Path(sys.argv[1])) as folder:
    (folder / "data").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_is_removed_at_the_end_of_the_block(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder("s-", tmp_path) as folder:
        assert folder.parent == tmp_path
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    with scratch_folder("s-", tmp_path) as folder:
        assert not left.exists()
        assert list(tmp_path.iterdir()) == [folder]


def test_folders_in_use_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "s-without-owner").mkdir()
    (tmp_path / "other").mkdir()
    with scratch_folder("s-", tmp_path) as first, scratch_folder("s-", tmp_path) as second:
        assert {path.name for path in tmp_path.iterdir()} == {"s-without-owner", "other", first.name, second.name}
