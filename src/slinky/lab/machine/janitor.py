# SPDX-License-Identifier: Apache-2.0
"""The parent process of a lab: starts the control machine and removes everything when the lab ends.

A lab ends on `down`, when its owner ends (a killed test run, an interrupted `up`), or when its control machine ends.
Processes, mounts and links end with the namespaces; cgroups and files are removed here. If the janitor itself is
killed, the kernel still ends the machines, and the next `up` or `down` removes the rest.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from slinky.lab.machine import cgroups, inotify, network
from slinky.lab.machine.machine import Machine

SETTLED = signal.SIGUSR1
#: The file in a lab's folder that records its claim to a network.
CLAIM = "network"


def main() -> None:
    """Arguments: the lab's folder, and the process id of its owner."""
    folder, owner = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir("/")
    machine = Machine("control", folder / "control")
    machine.logs.mkdir(parents=True)
    with (machine.logs / "init.log").open("ab") as log:
        child = subprocess.Popen(
            machine.launch_command(None), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    watch(child, owner)
    child.kill()
    child.wait()
    clear(folder)


def watch(child: "subprocess.Popen[bytes]", owner: int) -> None:
    """Return when the lab has to end."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT, SETTLED):
        signal.signal(number, lambda *_: None)
    waited = {reader, os.pidfd_open(child.pid)}
    try:
        owning = os.pidfd_open(owner)
    except ProcessLookupError:
        return
    waited.add(owning)
    while True:
        ready, _, _ = select.select(list(waited), [], [])
        if set(ready) != {reader}:
            return
        if set(os.read(reader, 64)) != {SETTLED}:
            return
        # From now on the lab outlives the command that created it.
        waited.discard(owning)


def clear(folder: Path) -> None:
    """Remove what a lab leaves outside its namespaces. May be repeated, also after a crash."""
    lab = folder.name
    with contextlib.suppress(OSError, ValueError):
        network.release(folder / CLAIM)
    cgroups.remove(cgroups.branch(lab))
    shutil.rmtree(folder, ignore_errors=True)
    # The first attempt may have met a file that was still in use by a container that was being stopped.
    shutil.rmtree(folder, ignore_errors=True)
    inotify.restore_limit(folder)


if __name__ == "__main__":
    main()
