# SPDX-License-Identifier: Apache-2.0
"""Lets this machine run programs of another architecture, so that it can build images for it.

The kernel starts QEMU (user mode) for such programs, as long as QEMU is registered in binfmt_misc. The registration
opens the program once (flag F), so that it also works inside root file systems that have no QEMU. It is removed at the
end of the build, because it would otherwise hide that a node cannot run an image.
"""

import contextlib
import fcntl
import platform
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import stream
from slinky.lab.prepare import debian
from slinky.lab.prepare.artifact_cache import Artifact, ArtifactCache
from slinky.lab.progress import Progress

#: Where distributions mount the file system of the kernel's registrations.
BINFMT = Path("/proc/sys/fs/binfmt_misc")


class Architecture(NamedTuple):
    """An architecture: its name in registries, Debian and Kubernetes; that of the kernel and wheels; its ELF number."""

    name: str
    machine: str
    elf: int

    @property
    def platform(self) -> str:
        """The platform of an image."""
        return f"linux/{self.name}"

    @property
    def emulator(self) -> str:
        """The program of QEMU that runs programs of this architecture."""
        return f"qemu-{self.machine}"


ARCHITECTURES = {
    item.name: item for item in (Architecture("amd64", "x86_64", 0x3E), Architecture("arm64", "aarch64", 0xB7))
}


def native() -> Architecture:
    """The architecture of this machine."""
    machine = platform.machine()
    return next((item for item in ARCHITECTURES.values() if item.machine == machine), Architecture(machine, machine, 0))


def qemu(store: ArtifactCache) -> Artifact:
    """The programs of QEMU for every architecture, linked statically, as Debian builds them."""
    programs = tuple(item.emulator for item in ARCHITECTURES.values() if item != native())
    return debian.programs(store, "qemu-user", "QEMU for programs of other architectures", programs, ("qemu-user",))


def magic(architecture: Architecture) -> str:
    """The beginning of the programs of an architecture: ELF, 64 bits, little endian, executable or shared object."""
    return bytes([0x7F, *b"ELF", 2, 1, 1, *[0] * 9, 2, 0, architecture.elf, 0]).hex()


def mask() -> str:
    """The bits that are compared: all but the ABI and the last bit of the type."""
    return bytes([*[0xFF] * 7, 0, *[0xFF] * 8, 0xFE, 0xFF, 0xFF, 0xFF]).hex()


def registration(name: str, architecture: Architecture, interpreter: Path) -> str:
    r"""The line that registers an interpreter, with bytes as `\x7f`; it keeps argv[0] and the rights of set-user-ID."""
    escaped = (re.sub("..", r"\\x\g<0>", text) for text in (magic(architecture), mask()))
    return f":{name}:M::{':'.join(escaped)}:{interpreter}:PCF"


def is_handled(entry: str, architecture: Architecture) -> bool:
    """Whether an entry of binfmt_misc runs programs of an architecture in every root file system."""
    lines = dict(line.partition(" ")[::2] for line in entry.splitlines())
    return "enabled" in lines and "F" in lines.get("flags:", "") and lines.get("magic") == magic(architecture)


@contextlib.contextmanager
def emulated(architecture: Architecture, store: ArtifactCache, progress: Progress) -> Iterator[None]:
    """Run programs of an architecture on this machine while the block lasts; nothing is done if it does so already."""
    name = f"slinky-{architecture.name}"
    with (store.folder / "emulation.lock").open("w") as lock, registrations() as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A process that was killed has left it: who holds the lock is the only one that uses it.
        _remove(folder / name)
        if any(is_handled(file.read_text(), architecture) for file in _entries(folder)):
            yield
            return
        program = store.ensure(qemu(store), progress) / architecture.emulator
        try:
            (folder / "register").write_text(registration(name, architecture, program))
        except OSError as error:
            raise _no_emulation(architecture, error.strerror or str(error)) from error
        try:
            yield
        finally:
            _remove(folder / name)


@contextlib.contextmanager
def registrations() -> Iterator[Path]:
    """The folder of the registrations, which is mounted for the block if it is not mounted already."""
    if (BINFMT / "register").exists():
        yield BINFMT
        return
    with tempfile.TemporaryDirectory(prefix="slinky-binfmt-") as folder:
        try:
            stream(["mount", "-t", "binfmt_misc", "binfmt_misc", folder])
        except LabError as problem:
            raise LabError(
                f"the kernel cannot start programs of other architectures: {problem.what}",
                "run `modprobe binfmt_misc`; in a container, run the command on the host",
            ) from problem
        try:
            yield Path(folder)
        finally:
            stream(["umount", folder])


def _no_emulation(architecture: Architecture, reason: str) -> LabError:
    return LabError(
        f"QEMU for {architecture.platform} cannot be registered with the kernel ({reason})",
        "install qemu-user-binfmt or qemu-user-static of the distribution, which registers it",
    )


def _entries(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name not in ("register", "status")]


def _remove(entry: Path) -> None:
    if entry.exists():
        entry.write_text("-1")
