# SPDX-License-Identifier: Apache-2.0
"""A container without rights over its cgroups: the lab says so before it starts anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from slinky.lab import lab_state
from slinky.lab.machine import cgroups

SLINKY = Path(sys.executable).with_name("slinky")
#: As in most containers: the cgroups are there, and cannot be changed.
READ_ONLY = 'for folder in $0; do mount -o remount,bind,ro "$folder"; done; exec "$@"'


@pytest.mark.parametrize("command", [("lab", "check"), ("lab", "up", "--name", "rights", "--nodes", "1")])
def test_it_is_told_at_once_with_the_next_step(command: tuple[str, ...]) -> None:
    folders = " ".join(map(str, cgroups.hierarchies()))
    argv = ["unshare", "--mount", "sh", "-ec", READ_ONLY, folders, str(SLINKY), *command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    said = " ".join(f"{done.stdout} {done.stderr}".split())
    assert done.returncode == 1
    assert f"{cgroups.hierarchies()[0]} is not writable" in said
    assert "give it its own cgroup namespace with write access" in said
    assert "rights" not in lab_state.names()
