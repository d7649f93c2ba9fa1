# SPDX-License-Identifier: Apache-2.0
"""Runs a command to completion in its own root file system, for builds.

Mounts and processes are in private namespaces and end with the command.
"""

import dataclasses
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slinky.lab.errors import LabError
from slinky.lab.machine.machine import PATH, unshared
from slinky.lab.machine.rootfs import Mount, RootFilesystem, kernel_mounts

Line = Callable[[str], None]


def run_in(
    tree: Path,
    argv: Sequence[str],
    *,
    binds: Mapping[str, Path] | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Line = lambda _: None,
) -> None:
    """Run `argv` with `tree` as its root, the host's network and name resolution, and these folders bound in."""
    with tempfile.TemporaryDirectory(prefix="slinky-sandbox-") as scratch:
        mounts = [Mount("bind", target, str(source)) for target, source in (binds or {}).items()]
        resolve = [Mount("bind", name, name) for name in ("/etc/resolv.conf", "/etc/hosts")]
        root = RootFilesystem(str(tree), f"{scratch}/root", mounts=(*kernel_mounts(), *resolve, *mounts))
        task = {
            "root": dataclasses.asdict(root),
            "argv": list(argv),
            "env": {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})},
        }
        stream(unshared(Path(scratch) / "task.json", task, ("--mount", "--pid")), on_line=on_line)


def stream(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Line = lambda _: None,
) -> None:
    """Run a long command and pass on each line of its output; an error contains the last lines."""
    last: list[str] = []
    with subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                last = [*last[-14:], line.rstrip()]
                on_line(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise LabError(f"{Path(argv[0]).name} failed with {process.returncode}:\n" + "\n".join(last))
