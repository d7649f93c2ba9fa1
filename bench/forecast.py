# SPDX-License-Identifier: Apache-2.0
"""The CPU time of a forecast of 10,000 pending jobs over 5,000 nodes, and of the start of the command."""

import random
import resource
import subprocess
import sys
import time

from slinky.insight.forecast import forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host, Job, number
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime
from slinky.slurm.model.partitions import Partition, PartitionMode

JOBS, HOSTS, RUNNING, LIMIT = 10_000, 5_000, 4_000, 2.0
#: A short queue of the same cluster: its clock must not be exact, because 4,000 running jobs have as many ends.
FEW_JOBS, FEW_LIMIT = 400, 1.0
START_LIMIT = 0.15
NOW = 1_800_000_000
USERS = [f"user{number}" for number in range(60)]


def cluster(seed: int, jobs: int = JOBS, hosts: int = HOSTS) -> QueueSnapshot:
    """A GPU cluster with three partitions, jobs of 1 to 64 nodes and 1 to 48 hours, some of them on shared nodes."""
    chance = random.Random(seed)
    nodes = [
        Host(
            name=f"n{index:05}",
            words=("IDLE",),
            partitions=("gpu", "all") if index % 4 else ("cpu", "all"),
            cpus=64,
            effective_cpus=64,
            real_memory=512_000,
            gres="gpu:h100:8" if index % 4 else "",
        )
        for index in range(hosts)
    ]
    gpu_nodes = [host.name for host in nodes if host.gres]
    running = [_job(chance, 1_000_000 + index, hosts=gpu_nodes) for index in range(RUNNING)]
    pending = [_job(chance, index + 1) for index in range(jobs)]
    history = tuple(
        AccountingJob(
            job_id=index,
            user=chance.choice(USERS),
            state_record=AccountingJobState(current=("COMPLETED",)),
            time=AccountingJobTime(elapsed=chance.randrange(60, 3600), limit=number(60)),
        )
        for index in range(1000)
    )
    up = PartitionMode(state=("UP",))
    partitions = tuple(Partition(name=name, partition=up) for name in ("gpu", "cpu", "all"))
    return QueueSnapshot(NOW, (*running, *pending), tuple(nodes), partitions, history=history)


def _job(chance: random.Random, job_id: int, hosts: list[str] | None = None) -> Job:
    partition = "gpu" if hosts else chance.choice(["gpu", "gpu", "cpu", "all"])
    count = chance.choice([1, 1, 1, 1, 1, 2, 2, 4, 8, 16, 32, 64]) if not hosts else 1
    gpus = chance.choice([1, 2, 4, 8, 8]) if partition == "gpu" else 0
    cpus = gpus * 8 or chance.choice([1, 4, 16, 32, 64])
    minutes = chance.choice([30, 60, 120, 240, 480, 720, 1440, 2880])
    gres = f",gres/gpu={gpus * count}" if gpus else ""
    begin = NOW - chance.randrange(0, minutes * 60)
    state = ("RUNNING",) if hosts else ("PENDING",)
    return Job(
        job_id=job_id,
        user_name=chance.choice(USERS),
        partition=partition,
        job_state=state,
        state_reason="Priority",
        nodes=chance.choice(hosts) if hosts else "",
        node_count=number(count),
        tres_req_str=f"cpu={cpus * count},mem={cpus * 4 * count}G,node={count}{gres}",
        shared=("none",) if gpus == 8 else (),
        priority=number(chance.randrange(1, 10**6)),
        time_limit=number(minutes),
        start_time=number(begin) if hosts else number(None),
        end_time=number(begin + minutes * 60) if hosts else number(None),
    )


def start_seconds(*argv: str) -> float:
    """The CPU time of one start of the command, with warm files; the smallest of three."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "slinky.cli", *argv], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> int:
    """Print the CPU times; fail above the limits."""
    snapshot = cluster(seed=1)
    begin = time.process_time()
    ranges = forecast(snapshot)
    spent = time.process_time() - begin
    known = sum(1 for entry in ranges.values() if entry.latest is not None)
    print(
        f"forecast of {JOBS} pending jobs over {HOSTS} nodes, {RUNNING} running: {spent:.2f} s of CPU (limit {LIMIT})"
    )
    print(f"jobs with a forecast: {known}")
    small = cluster(seed=1, jobs=FEW_JOBS)
    begin = time.process_time()
    forecast(small)
    few = time.process_time() - begin
    print(f"forecast of {FEW_JOBS} pending jobs: {few:.2f} s of CPU (limit {FEW_LIMIT})")
    start = start_seconds("--version")
    print(f"start of `slinky --version`: {start * 1000:.0f} ms of CPU (limit {START_LIMIT * 1000:.0f})")
    for argv in (("--help",), ("version", "--client"), ("explain", "--help")):
        print(f"start of `slinky {' '.join(argv)}`: {start_seconds(*argv) * 1000:.0f} ms of CPU")
    return 0 if spent <= LIMIT and few <= FEW_LIMIT and known == JOBS and start <= START_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
