# SPDX-License-Identifier: Apache-2.0
"""A real slurmctld for the measurements of presets: hosts without slurmd, external jobs, settings that change.

External jobs go through the same priorities, main scheduler and backfill as all others, and start no process, so that
slurmctld alone is measured. Every job is cancelled before the next measurement.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec
from tests.support.slurm_settings import FOLDER, changed, restart_slurmctld

from slinky.lab import bringup
from slinky.lab.progress import Progress
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobRequest, JobSelection, MintedToken, SlurmClient, SubmittedJob, number

#: Hosts by the feature that puts them into the partition of the same name.
HOSTS = {"one": 1, "small": 16, "large": 1200}
CORES, MEMORY, GPUS = 16, 64_000, 8
#: What the presets leave to Slurm's defaults is reset, because the lab has its own settings.
PLAIN = {
    "SchedulerParameters": "batch_sched_delay=3",
    "PriorityWeightFairshare": "0",
    "PriorityWeightQOS": "0",
    "PriorityWeightAge": "1000",
    "MinJobAge": "60",
}
_PARTITIONS = "".join(f"NodeSet={name} Feature={name}\n" for name in HOSTS) + "".join(
    f"PartitionName={name} Nodes={name} {{options}}\n" for name in HOSTS
)
T = TypeVar("T")
#: Seconds after which a measurement ends.
LIMIT = 120.0


class PresetCluster:
    """Commands to the Slurm of a lab."""

    def __init__(self, slurm: LabSlurm) -> None:
        self.slurm = slurm
        self._original = slurm.exec("cat", f"{FOLDER}/slurm.conf")

    def create_hosts(self) -> None:
        """Create all hosts; they survive restarts of slurmctld."""
        first = 1
        for feature, count in HOSTS.items():
            names = f"e[{first:05d}-{first + count - 1:05d}]"
            shape = (
                f"NodeName={names} NodeAddr=127.0.0.1 CPUs={CORES} Boards=1 SocketsPerBoard=2 "
                f"CoresPerSocket={CORES // 2} ThreadsPerCore=1 RealMemory={MEMORY} State=EXTERNAL Feature={feature} "
                f"Gres=gpu:h100:{GPUS} Topology=default:leaf2"
            )
            self.slurm.exec("scontrol", "create", *shape.split())
            first += count

    def configure(self, settings: Mapping[str, str], partition: str) -> None:
        """Restart slurmctld with other settings, and with options of every partition."""
        lines = _PARTITIONS.format(options=partition)
        restart_slurmctld(self.slurm, {"slurm.conf": changed(self._original, {**PLAIN, **settings}, lines)})

    @contextlib.asynccontextmanager
    async def client(self, user: str = "slurm") -> AsyncIterator[SlurmClient]:
        """A client for slurmrestd."""
        async with SlurmClient(self.slurm.url, MintedToken(lambda: self.slurm.jwt_key, user)) as client:
            yield client

    async def clear(self) -> None:
        """Cancel every job, and wait until all hosts are idle."""
        async with self.client() as client:
            await client.cancel_many(JobSelection(job_name=NAME))

            async def active() -> int:
                return sum(status.state.live or status.state.holds_nodes for status in await client.job_states())

            await until(active, lambda count: count == 0)


NAME = "preset"
_JOB = JobRequest(
    name=NAME, account="lab", flags=["EXTERNAL_JOB"], current_working_directory="/", tasks_per_node=1, tasks=1,
    minimum_nodes=1,
)  # fmt: skip


def job(partition: str, cores: int = 1, *, hours: float = 1, **more: object) -> JobRequest:
    """An external job."""
    fields = {"partition": partition, "cpus_per_task": cores, "time_limit": number(int(hours * 60)), **more}
    return msgspec.structs.replace(_JOB, **fields)


async def submit_many(client: SlurmClient, count: int, request: JobRequest) -> list[int]:
    """Submit the same job many times; the ids."""
    return await _many(client.submit, count, request)


async def start_many(client: SlurmClient, count: int, request: JobRequest) -> list[int]:
    """Start the same job many times, at once; the ids."""
    return await _many(client.allocate, count, request)


async def _many(send: Callable[[JobRequest], Awaitable[SubmittedJob]], count: int, request: JobRequest) -> list[int]:
    todo = iter(range(count))

    async def send_all() -> list[int]:
        return [(await send(request)).job_id for _ in todo]

    return sorted(chain.from_iterable(await asyncio.gather(*(send_all() for _ in range(6)))))


async def until(read: Callable[[], Awaitable[T]], enough: Callable[[T], bool], seconds: float = LIMIT) -> float:
    """Seconds until a value is enough, or the limit."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if enough(await read()):
            return time.monotonic() - begin
        await asyncio.sleep(0.05)
    return seconds


@contextlib.contextmanager
def started() -> Iterator[PresetCluster]:
    """A cluster that lasts as long as the block."""
    options = bringup.LabOptions(name="bench-presets", nodes=0, slurm="alone", slurm_nodes=0, owner=os.getpid())
    lab = bringup.up(options, Progress())
    try:
        yield PresetCluster(lab.slurm)
    finally:
        bringup.down(lab.name)


RESULTS = Path(__file__).parent / "results" / "presets.json"
