# SPDX-License-Identifier: Apache-2.0
"""The state file of a lab, by which later commands find it."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from slinky.lab import paths
from slinky.lab.errors import LabError

Phase = Literal["starting", "up"]
CgroupDriver = Literal["cgroupfs", "systemd"]
#: Whether a lab has a Slurm of its own: not, next to Kubernetes, or without Kubernetes.
SlurmPlace = Literal["none", "beside", "alone"]


class LabState(msgspec.Struct):
    """The state of one lab, kept as lab.json in its folder."""

    name: str
    minor: str
    created: float
    janitor: int
    phase: Phase = "starting"
    index: int | None = None
    nodes: int = 0
    vms: int = 0
    vm_cgroup_driver: CgroupDriver = "systemd"
    vm_accelerator: str = "tcg"
    gpus: int = 0
    hollow: int = 0
    slurm: SlurmPlace = "none"
    slurm_nodes: int = 2
    external_nodes: int = 0
    seconds: dict[str, float] = {}
    artifacts: dict[str, str] = {}

    @property
    def has_slurm(self) -> bool:
        """Whether the lab has a Slurm of its own, which no operator runs."""
        return self.slurm != "none"

    @property
    def has_kubernetes(self) -> bool:
        """Whether the lab has a control plane."""
        return self.slurm != "alone"

    @property
    def folder(self) -> Path:
        """Where the lab's files are."""
        return paths.labs() / self.name

    def save(self) -> None:
        """Write the file atomically."""
        scratch = self.folder / "lab.json.new"
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        scratch.rename(self.folder / "lab.json")

    def alive(self) -> bool:
        """Whether the lab's janitor still runs. A process id may be reused, so its command line is compared too."""
        try:
            command = Path(f"/proc/{self.janitor}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"slinky.lab.machine.janitor" in command and str(self.folder).encode() in command


def load(name: str) -> LabState | None:
    """The state of a lab, or None if there is no such lab."""
    file = paths.labs() / paths.checked_name(name) / "lab.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=LabState)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise LabError(f"{file} is damaged: {problem}", f"run `slinky lab down --name {name}`") from problem


def names() -> list[str]:
    """The names of all labs, running or left behind."""
    root = paths.labs()
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Allow only one command at a time to change a lab."""
    root = paths.labs()
    root.mkdir(parents=True, exist_ok=True)
    file = root / f"{paths.checked_name(name)}.lock"
    with file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise LabError(f"lab {name} is being changed by process {holder}", "wait for it, then try again") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def age(state: LabState) -> float:
    """Seconds since the lab was created."""
    return time.time() - state.created
