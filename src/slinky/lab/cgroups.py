# SPDX-License-Identifier: Apache-2.0
"""The cgroups of a lab: one branch per lab in every hierarchy, one twig per node.

Kubelets that shared a root would take each other's pods for orphans and remove them. Version 1 and version 2
hierarchies are treated alike: each mounted one gets the folder.
"""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Where the kernel's cgroup hierarchies are mounted."""
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    fields = (line.split() for line in text.splitlines())
    return [Path(field[1]) for field in fields if field[2] in ("cgroup", "cgroup2")]


def branch(lab: str) -> str:
    """The name of a lab's cgroup."""
    return f"slinky-{lab}"


def create(path: str) -> None:
    """Make a cgroup in every hierarchy; cpusets inherit nothing in version 1, so they are filled from above."""
    for top in hierarchies():
        folder = top
        for part in path.split("/"):
            folder /= part
            folder.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                file, above = folder / name, folder.parent / name
                if file.exists() and above.exists() and not file.read_text().strip():
                    file.write_text(above.read_text())


def remove(path: str, seconds: float = 10) -> list[Path]:
    """Remove a cgroup and all below it, waiting for dying processes; returns what would not go."""
    deadline = time.monotonic() + seconds
    left = [top / path for top in hierarchies()]
    while left and time.monotonic() < deadline:
        for folder in left:
            _remove_tree(folder)
        left = [folder for folder in left if folder.exists()]
        if left:
            time.sleep(0.05)
    return left


def _remove_tree(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for child in _folders(folder):
            _remove_tree(child)
        folder.rmdir()


def _folders(folder: Path) -> Iterable[Path]:
    return [child for child in folder.iterdir() if child.is_dir()]
