# SPDX-License-Identifier: Apache-2.0
"""The cgroups of a lab: one per lab in every hierarchy, with one child per node.

Kubelets that share a cgroup root take each other's pods for orphans and remove them. Every mounted hierarchy gets
the cgroup, version 1 and version 2 alike; in version 2 the controllers are delegated to it as well.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from slinky.lab.errors import LabError

#: What a node delegates where the kernel has it, and what a kubelet refuses to start without.
DELEGATED = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
REQUIRED = frozenset({"cpuset", "cpu", "memory", "pids"})

IN_A_CONTAINER = (
    "in a container, give it its own cgroup namespace with write access and move its processes into a child cgroup "
    "first (mkdir /sys/fs/cgroup/init; echo $$ > /sys/fs/cgroup/init/cgroup.procs); see docs/lab.md"
)


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Where the kernel's cgroup hierarchies are mounted."""
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    fields = (line.split() for line in text.splitlines())
    return [Path(field[1]) for field in fields if field[2] in ("cgroup", "cgroup2")]


def problem(tops: Iterable[Path] | None = None) -> str:
    """Why no lab can have cgroups here, without creating one; empty if it can.

    A kubelet finds its controllers either in hierarchies of version 1, one for each, or in the one of version 2.
    """
    tops = hierarchies() if tops is None else list(tops)
    if not tops:
        return "no cgroup hierarchy is mounted"
    if unwritable := [str(top) for top in tops if not os.access(top, os.W_OK)]:
        return f"{unwritable[0]} is not writable"
    version_1 = {name for top in tops for name in top.name.split(",") if not (top / "cgroup.controllers").exists()}
    available = version_1.union(*(_controllers(top) for top in tops))
    if missing := sorted(REQUIRED - available):
        return f"the controllers {', '.join(missing)} are missing"
    if is_version_2(tops) and (occupied := [str(top) for top in tops if _cannot_delegate(top)]):
        return f"{occupied[0]} contains processes, so it cannot delegate its controllers"
    return ""


def is_version_2(tops: Iterable[Path] | None = None) -> bool:
    """Whether this machine has cgroups of version 2 only."""
    tops = hierarchies() if tops is None else list(tops)
    return bool(tops) and all((top / "cgroup.controllers").exists() for top in tops)


def branch(lab: str) -> str:
    """The name of a lab's cgroup."""
    return f"slinky-{lab}"


def create(path: str, tops: Iterable[Path] | None = None) -> None:
    """Create a cgroup in every hierarchy, with the controllers that a kubelet needs.

    Version 1 cpusets inherit nothing, so they are copied from the parent. In version 2 a cgroup has only the
    controllers that its parent delegates, so every parent on the way delegates them. A hybrid host has the
    controllers in version 1 hierarchies, so nothing is delegated or required in its version 2 hierarchy.
    """
    tops = hierarchies() if tops is None else list(tops)
    version_2_only = is_version_2(tops)
    for top in tops:
        folder = top
        for part in path.split("/"):
            if version_2_only:
                _delegate_controllers(folder)
            folder /= part
            folder.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                file, above = folder / name, folder.parent / name
                if file.exists() and above.exists() and not file.read_text().strip():
                    file.write_text(above.read_text())
        if version_2_only:
            _require_controllers(folder)


def _delegate_controllers(folder: Path) -> None:
    """Hand every controller that a kubelet uses down to the children of a version 2 cgroup.

    This is a single write: written one by one, the first controllers of a cgroup that contains processes are accepted
    and turn it into a thread root, in which the memory controller can no longer be enabled.
    """
    available = _controllers(folder)
    if wanted := " ".join(f"+{name}" for name in available if name in DELEGATED):
        try:
            (folder / "cgroup.subtree_control").write_text(wanted)
        except OSError as error:
            raise LabError(
                f"cgroup {folder} cannot delegate its controllers ({error.strerror})", IN_A_CONTAINER
            ) from error


def _cannot_delegate(top: Path) -> bool:
    """Whether processes keep a version 2 cgroup from delegating.

    The root of the machine, which has no `cgroup.type`, may have both. The root of a container's namespace may not.
    """
    procs = top / "cgroup.procs"
    is_delegated = set((top / "cgroup.subtree_control").read_text().split()) >= REQUIRED
    return (top / "cgroup.type").exists() and not is_delegated and bool(procs.read_text().strip())


def _require_controllers(folder: Path) -> None:
    """Fail at once where a kubelet would only fail after it has been restarted for minutes."""
    if missing := sorted(REQUIRED - set(_controllers(folder))):
        raise LabError(f"cgroup {folder} lacks the controllers {', '.join(missing)}", IN_A_CONTAINER)


def _controllers(folder: Path) -> list[str]:
    """The controllers of a version 2 cgroup; empty for version 1."""
    file = folder / "cgroup.controllers"
    return file.read_text().split() if file.exists() else []


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
