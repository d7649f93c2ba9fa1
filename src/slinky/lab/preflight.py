# SPDX-License-Identifier: Apache-2.0
"""What a lab needs from its machine: facts are read in one place, judged by a table, and shown on one screen.

`slinky lab check` prints the table. Commands that start long work refuse at once if something is missing.
"""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from slinky.lab import paths
from slinky.lab.errors import LabError
from slinky.lab.machine import cgroups, virtual_machine
from slinky.lab.prepare.tools import PACKAGES

GIGABYTE = 10**9
NAMESPACES = ("mnt", "pid", "net", "uts", "ipc")
MIN_PYTHON = (3, 11)
MIN_KERNEL = (5, 10)
#: Below the first number a lab does not start; below the second one it is slow, or large labs do not fit.
MEMORY_GB = (4, 8)
CPUS = (1, 2)
#: The device that connects a virtual machine to the lab's network.
TUN = Path("/dev/net/tun")
#: What running labs write.
LABS_GB = 2


class Verdict(StrEnum):
    """Whether a requirement is met. Only MISSING prevents a lab."""

    OK = "ok"
    SLOW = "slow"
    MISSING = "missing"


@dataclass(frozen=True)
class HostFacts:
    """What is known about this machine."""

    uid: int
    system: str
    kernel: tuple[int, ...]
    python: tuple[int, ...]
    cpus: int
    memory: int
    cache_free: int
    labs_free: int
    namespaces: frozenset[str]
    has_overlay: bool
    cgroup_problem: str
    missing_packages: tuple[str, ...]
    has_apt: bool
    gigabytes_to_prepare: float = 0.0
    vms: int = 0
    architecture: str = "x86_64"
    has_tun: bool = True
    memory_available: int = 0


@dataclass(frozen=True)
class Requirement:
    """One line of the table: what was found, whether it suffices, and what to do if not."""

    name: str
    found: str
    verdict: Verdict
    next_step: str = ""


def judge(facts: HostFacts) -> tuple[Requirement, ...]:
    """Compare the facts with every requirement."""
    return tuple(check(facts) for check in _CHECKS)


def refuse(requirements: Iterable[Requirement]) -> None:
    """Raise one error that names everything that is missing."""
    missing = [item for item in requirements if item.verdict is Verdict.MISSING]
    if missing:
        raise LabError(
            "this machine cannot run a lab:\n" + "\n".join(f"  {item.name}: {item.found}" for item in missing),
            "; ".join(item.next_step for item in missing),
        )


def gather(gigabytes_to_prepare: float = 0.0, vms: int = 0) -> HostFacts:
    """Read the facts for a lab with so many nodes in virtual machines; nothing is changed."""
    return HostFacts(
        uid=os.geteuid(),
        system=platform.system(),
        kernel=_numbers(platform.release()),
        python=sys.version_info[:2],
        cpus=len(os.sched_getaffinity(0)),
        memory=_memory(),
        cache_free=_free(paths.cache()),
        labs_free=_free(paths.labs()),
        namespaces=frozenset(name for name in NAMESPACES if Path("/proc/self/ns", name).exists()),
        has_overlay=_has_overlay(),
        cgroup_problem=cgroups.problem(),
        missing_packages=tuple(sorted({package for tool, package in PACKAGES.items() if not shutil.which(tool)})),
        has_apt=bool(shutil.which("apt-get")),
        gigabytes_to_prepare=gigabytes_to_prepare,
        vms=vms,
        architecture=platform.machine(),
        has_tun=TUN.exists(),
        memory_available=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") + _page_cache(),
    )


def _user(facts: HostFacts) -> Requirement:
    if facts.uid == 0:
        return Requirement("user", "root", Verdict.OK)
    return Requirement("user", f"uid {facts.uid}, not root", Verdict.MISSING, "run it with sudo, or as root in a VM")


def _kernel(facts: HostFacts) -> Requirement:
    version = ".".join(map(str, facts.kernel))
    found = f"{facts.system} {version}"
    if facts.system != "Linux":
        return Requirement("kernel", found, Verdict.MISSING, "use a Linux machine, or a Linux VM")
    if facts.kernel < MIN_KERNEL:
        return Requirement("kernel", found, Verdict.MISSING, f"use Linux {MIN_KERNEL[0]}.{MIN_KERNEL[1]} or newer")
    return Requirement("kernel", found, Verdict.OK)


def _python(facts: HostFacts) -> Requirement:
    found = ".".join(map(str, facts.python))
    if facts.python < MIN_PYTHON:
        return Requirement("Python", found, Verdict.MISSING, "install Python 3.11 or newer and set PYTHON=python3.11")
    return Requirement("Python", found, Verdict.OK)


def _namespaces(facts: HostFacts) -> Requirement:
    absent = [name for name in NAMESPACES if name not in facts.namespaces]
    if absent:
        return Requirement("namespaces", f"{', '.join(absent)} absent", Verdict.MISSING, "use a kernel with namespaces")
    return Requirement("namespaces", ", ".join(NAMESPACES), Verdict.OK)


def _overlay(facts: HostFacts) -> Requirement:
    if facts.has_overlay:
        return Requirement("overlay file system", "available", Verdict.OK)
    return Requirement("overlay file system", "not available", Verdict.MISSING, "run `modprobe overlay`")


def _cgroups(facts: HostFacts) -> Requirement:
    if not facts.cgroup_problem:
        return Requirement("cgroups", "writable, with every controller", Verdict.OK)
    return Requirement("cgroups", facts.cgroup_problem, Verdict.MISSING, cgroups.IN_A_CONTAINER)


def _processors(facts: HostFacts) -> Requirement:
    least, good = CPUS
    verdict = Verdict.OK if facts.cpus >= good else Verdict.SLOW if facts.cpus >= least else Verdict.MISSING
    return Requirement("CPUs", str(facts.cpus), verdict, "" if verdict is Verdict.OK else f"{good} or more are better")


def _memory_size(facts: HostFacts) -> Requirement:
    least, good = MEMORY_GB
    size = facts.memory / GIGABYTE
    verdict = Verdict.OK if size >= good else Verdict.SLOW if size >= least else Verdict.MISSING
    hint = "" if verdict is Verdict.OK else f"give the machine {good} GB; {least} GB run the smallest lab"
    return Requirement("memory", f"{size:.1f} GB", verdict, hint)


def _cache_disk(facts: HostFacts) -> Requirement:
    name, needed = "disk of the cache", facts.gigabytes_to_prepare
    return _disk(name, facts.cache_free, needed, f"free {needed:.0f} GB, or set SLINKY_CACHE to a larger disk")


def _labs_disk(facts: HostFacts) -> Requirement:
    hint = f"free {LABS_GB} GB, or set SLINKY_STATE to a larger disk"
    return _disk("disk of running labs", facts.labs_free, LABS_GB, hint)


def _disk(name: str, free: int, needed: float, hint: str) -> Requirement:
    found = f"{free / GIGABYTE:.1f} GB free, {needed:.0f} GB needed"
    if free < needed * GIGABYTE:
        return Requirement(name, found, Verdict.MISSING, hint)
    return Requirement(name, found, Verdict.OK)


def _programs(facts: HostFacts) -> Requirement:
    if not facts.missing_packages:
        return Requirement("programs", "all present", Verdict.OK)
    names = ", ".join(facts.missing_packages)
    if facts.has_apt:
        return Requirement("programs", f"{names} will be installed with apt-get", Verdict.OK)
    return Requirement("programs", f"{names} absent", Verdict.MISSING, f"install {names} with the package manager")


def _virtual_machines(facts: HostFacts) -> Requirement:
    """What `--vms` needs beside all else; without `--vms` nothing is missing."""
    name = "virtual machines"
    needed = facts.vms * virtual_machine.MEMORY_MIB << 20
    found = f"{facts.memory_available / GIGABYTE:.1f} GB of memory available, {needed / GIGABYTE:.1f} GB needed"
    if not facts.vms:
        return Requirement(name, "none wanted", Verdict.OK)
    if facts.architecture != virtual_machine.ARCHITECTURE:
        hint = f"use an {virtual_machine.ARCHITECTURE} machine, or nodes without virtual machines (--nodes)"
        return Requirement(name, f"not possible on {facts.architecture}", Verdict.MISSING, hint)
    if not facts.has_tun:
        hint = "run `modprobe tun`; in a container, pass the device in"
        return Requirement(name, f"{TUN} absent", Verdict.MISSING, hint)
    if facts.memory_available < needed:
        return Requirement(name, found, Verdict.MISSING, "use fewer --vms, or end other programs")
    return Requirement(name, found, Verdict.OK)


_CHECKS: tuple[Callable[[HostFacts], Requirement], ...] = (
    _user, _kernel, _python, _namespaces, _overlay, _cgroups, _processors, _memory_size, _cache_disk, _labs_disk,
    _programs, _virtual_machines,
)  # fmt: skip


def _numbers(release: str) -> tuple[int, ...]:
    """The first two numbers of a kernel release such as 6.1.0-13-amd64."""
    parts = release.partition("-")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _page_cache() -> int:
    """Memory that the kernel frees on demand."""
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Cached:", "SReclaimable:")))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _has_overlay() -> bool:
    """Whether the kernel has overlayfs, built in, loaded, or as a module that it loads on the first mount."""
    listed = Path("/proc/filesystems")
    if listed.exists() and any(line.split()[-1:] == ["overlay"] for line in listed.read_text().splitlines()):
        return True
    return any(Path("/lib/modules", platform.release(), "kernel/fs/overlayfs").glob("overlay.ko*"))
