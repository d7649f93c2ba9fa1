# SPDX-License-Identifier: Apache-2.0
"""Enters another root file system inside private namespaces.

A `RootFilesystem` is data: a tree and what is mounted into it. `enter` makes it the root of the calling process, which
must be in its own mount namespace. It uses `pivot_root` instead of chroot, because runc and buildah refuse to run
under a root that is not a mount point.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["bind", "rbind", "tmpfs", "proc", "sysfs"]


@dataclass(frozen=True)
class Mount:
    """A mount below the new root; `target` is an absolute path inside it."""

    kind: Kind
    target: str
    source: str = ""
    options: str = ""

    def command(self, root: Path) -> list[str]:
        """The mount command."""
        target = f"{root}{self.target}"
        if self.kind in ("bind", "rbind"):
            return ["mount", f"--{self.kind}", self.source, target]
        options = ["-o", self.options] if self.options else []
        return ["mount", "-t", self.kind, *options, self.kind, target]


@dataclass(frozen=True)
class RootFilesystem:
    """A root file system; with `upper`, changes are written there and the tree stays unchanged."""

    tree: str
    point: str
    mounts: tuple[Mount, ...] = ()
    upper: str = ""
    hostname: str = ""
    shared: bool = False
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "RootFilesystem":
        """The inverse of `dataclasses.asdict`."""
        return cls(**{**value, "mounts": tuple(Mount(**mount) for mount in value["mounts"])})


def kernel_mounts() -> tuple[Mount, ...]:
    """The kernel's file systems; the new sysfs shows the network of the namespace."""
    return (
        Mount("proc", "/proc"),
        Mount("sysfs", "/sys"),
        Mount("rbind", "/sys/fs/cgroup", "/sys/fs/cgroup"),
        Mount("rbind", "/dev", "/dev"),
        Mount("tmpfs", "/run", options="mode=755,size=256m"),
        Mount("tmpfs", "/tmp", options="mode=1777"),  # noqa: S108 - a new one, inside the namespace
    )


def enter(root: RootFilesystem) -> None:
    """Make `root` the root of this process, which must own its mount namespace."""
    point = Path(root.point)
    point.mkdir(parents=True, exist_ok=True)
    if root.upper:
        work = f"{root.upper}.work"
        for folder in (root.upper, work):
            Path(folder).mkdir(parents=True, exist_ok=True)
        layers = f"lowerdir={root.tree},upperdir={root.upper},workdir={work}"
        _run("mount", "-t", "overlay", "overlay", "-o", layers, str(point))
    else:
        _run("mount", "--bind", root.tree, str(point))
    for mount in root.mounts:
        _make_target(mount, Path(f"{point}{mount.target}"))
        _run(*mount.command(point))
    for name, text in root.files.items():
        file = Path(f"{point}{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if root.hostname:
        _run("hostname", root.hostname)
    _pivot(point)
    if root.shared:
        _run("mount", "--make-rshared", "/")


def _make_target(mount: Mount, target: Path) -> None:
    if mount.kind in ("bind", "rbind") and Path(mount.source).is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    else:
        target.mkdir(parents=True, exist_ok=True)


def _pivot(point: Path) -> None:
    (point / ".old").mkdir(exist_ok=True)
    _run("pivot_root", str(point), str(point / ".old"))
    os.chdir("/")
    _run("umount", "-l", "/.old")
    Path("/.old").rmdir()


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
