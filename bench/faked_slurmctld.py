# SPDX-License-Identifier: Apache-2.0
"""A slurmctld of the lab whose clock can be set forward, so that days of a workload pass in minutes.

slurmctld runs with libfaketime, which reads the offset of the clock from a file whenever slurmctld asks for the time.
The clock is also faster than the real one, so that the waits of slurmctld, such as that between two backfill cycles,
are short. slurmrestd keeps the real clock. The cluster has external nodes, which need no slurmd, and no accounting.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slinky.lab import bringup
from slinky.lab.machine.machine import until
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress
from slinky.lab.slurm.cluster import LabSlurm
from slinky.lab.slurm.conf import HOSTNAME

#: How much faster the clock of slurmctld is than the real one.
RATE = 20
PARTITION = "work"
LIBRARY, CLOCK_FILE = "libfaketime.so", "faketime"
_STATE = "/var/lib/slurm/faked"

# A backfill cycle follows every change at once, sees the whole queue, and is not interrupted: what is read afterwards
# is one plan. The window is longer than nearly every plan of the workloads.
_CONF = """\
ClusterName=lab
SlurmctldHost={hostname}({address})
SlurmUser=slurm
AuthType=auth/slurm
CredType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
StateSaveLocation={state}
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmctldLogFile=/dev/stderr
MpiDefault=none
ProctrackType=proctrack/linuxproc
MinJobAge=60
InactiveLimit=0
SlurmdTimeout=0
SchedulerParameters=batch_sched_delay=0,default_queue_depth=1000,sched_interval=10,bf_interval=1,bf_continue,\
bf_max_time=3600,bf_yield_interval=10000000,bf_window=7200
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/basic
NodeName=n[001-{nodes:03}] NodeAddr=127.0.0.1 CPUs=1 RealMemory=1000 State=EXTERNAL
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass
class FakedClock:
    """The clock of slurmctld; `file` is the one that libfaketime reads."""

    file: Path
    offset: float = 0.0

    def forward(self, seconds: float) -> None:
        """Set the clock forward. The file is replaced, because it can be read at any moment."""
        self.offset += max(seconds, 0.0)
        new = self.file.with_suffix(".new")
        new.write_text(f"+{self.offset:.0f} x{RATE}\n")
        new.chmod(0o644)
        new.replace(self.file)


@contextlib.contextmanager
def faked_slurmctld(nodes: int, users: Iterable[str]) -> Iterator[tuple[LabSlurm, FakedClock]]:
    """A Slurm of the lab with so many nodes and these users, which lasts as long as the run."""
    progress = Progress()
    library = ArtifactInventory.of().faketime(progress)
    options = bringup.LabOptions(name="bench-forecast", nodes=0, slurm="alone", slurm_nodes=0, owner=os.getpid())
    lab = bringup.up(options, progress)
    try:
        yield lab.slurm, _replace_slurmctld(lab.slurm, library, nodes, users)
    finally:
        bringup.down(lab.name)


def _replace_slurmctld(slurm: LabSlurm, library: Path, nodes: int, users: Iterable[str]) -> FakedClock:
    """Start slurmctld again, with its own configuration and clock, and slurmrestd for it."""
    for name in ("slurmrestd", "slurmctld", "slurmdbd", "mariadbd"):
        slurm.stop(name)
    folder = slurm.machine.folder / "keys"
    conf = _CONF.format(hostname=HOSTNAME, address=slurm.address, state=_STATE, nodes=nodes, partition=PARTITION)
    (folder / "slurm.conf").write_text(conf)
    shutil.copy(library, folder / LIBRARY)
    clock = FakedClock(folder / CLOCK_FILE)
    clock.forward(0)
    slurm.exec("install", "--directory", "--owner=slurm", _STATE)
    for user in users:
        slurm.exec("useradd", "--no-create-home", user)
    argv, environment, uid = slurm.machine.command("slurmctld")
    faked = {
        "LD_PRELOAD": f"/etc/slurm/{LIBRARY}",
        "FAKETIME_TIMESTAMP_FILE": f"/etc/slurm/{CLOCK_FILE}",
        "FAKETIME_NO_CACHE": "1",
    }
    slurm.machine.start("slurmctld", argv, environment | faked, uid)
    ready = ["sh", "-c", "scontrol ping | grep -q UP"]
    until(
        lambda: slurm.machine.run(ready, check=False).returncode == 0,
        "slurmctld to answer", 60, lambda: slurm.machine.tail("slurmctld"),
    )  # fmt: skip
    slurm.start("slurmrestd")
    return clock
