# SPDX-License-Identifier: Apache-2.0
"""What the parameters of the presets buy, each measured twice on a real slurmctld: as Slurm has it, and as a preset.

    python -m bench.presets [NAME...]        prints and writes the table; docs/operator/presets.md has it

The numbers are those of one machine. What counts is the ratio of the two.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.preset_cluster import (
    CORES,
    GPUS,
    LIMIT,
    RESULTS,
    PresetCluster,
    job,
    start_many,
    started,
    submit_many,
    until,
)
from slinky.slurm import Rejected, SlurmClient, number

Row = dict[str, str | float]
Measure = Callable[[PresetCluster, SlurmClient], Awaitable[float]]
PAGE = Path(__file__).parents[1] / "docs/operator/presets.md"
BEGIN, END = "<!-- measured: written by `make bench-presets` -->\n", "<!-- end of measured -->\n"


@dataclass(frozen=True)
class Measurement:
    """A parameter, its presets, the settings without and with it, and what is measured."""

    name: str
    presets: str
    question: str
    measure: Measure
    default: Mapping[str, str] = field(default_factory=dict)
    preset: Mapping[str, str] = field(default_factory=dict)
    default_partition: str = "MaxTime=30-00:00:00"
    preset_partition: str = "MaxTime=30-00:00:00"


async def running(client: SlurmClient) -> int:
    """How many jobs run."""
    return sum(status.state.running for status in await client.job_states())


async def start(client: SlurmClient, job_id: int) -> float:
    """Seconds until a job runs."""
    return await until(lambda: client.job_states([job_id]), lambda found: found[0].state.running)


async def jobs_without_memory(cluster: PresetCluster, client: SlurmClient) -> float:
    await submit_many(client, CORES, job("one"))
    await asyncio.sleep(10)
    return await running(client)


async def jobs_with_a_gpu(cluster: PresetCluster, client: SlurmClient) -> float:
    await submit_many(client, GPUS, job("one", cpus_per_task=None, tres_per_node="gres/gpu:1"))
    await asyncio.sleep(10)
    return await running(client)


async def impossible_job(cluster: PresetCluster, client: SlurmClient) -> float:
    try:
        await client.submit(job("one", hours=2))
    except Rejected:
        return 0
    return 1


async def start_of_a_batch_job(cluster: PresetCluster, client: SlurmClient) -> float:
    """The mean of ten; a job of the scheduler's previous run has ended before."""
    times = []
    for _ in range(10):
        begin = time.monotonic()
        await start(client, (await client.submit(job("small", memory_per_node=number(100)))).job_id)
        times.append(time.monotonic() - begin)
    return sum(times) / len(times)


async def behind_another_user(cluster: PresetCluster, client: SlurmClient) -> float:
    """Jobs of alice need whole hosts and wait; a short job of bob fits beside those that run."""
    async with cluster.client("alice") as alice, cluster.client("bob") as bob:
        await start_many(alice, 16, job("small", CORES - 1, memory_per_node=number(100)))
        await submit_many(alice, 600, job("small", CORES, memory_per_node=number(100), hours=2))
        short = (await bob.submit(job("small", memory_per_node=number(100), hours=0.2))).job_id
        return await start(client, short)


async def overtaken(cluster: PresetCluster, client: SlurmClient) -> float:
    """A job for all hosts waits two days; jobs of five days that come after it would delay it."""
    await start_many(client, 8, job("small", CORES, memory_per_node=number(100), hours=48))
    await client.submit(job("small", CORES, memory_per_node=number(100), hours=48, tasks=16, minimum_nodes=16))
    await asyncio.sleep(1)
    await submit_many(client, 8, job("small", CORES, memory_per_node=number(100), hours=120))
    await backfill_runs(client, 2)
    return await running(client) - 8


async def backfill_runs(client: SlurmClient, count: int) -> None:
    """Wait for further complete runs of backfill."""
    first = (await client.diag()).bf_cycle_counter

    async def runs() -> int:
        return (await client.diag()).bf_cycle_counter - first

    await until(runs, lambda found: found >= count, 240)


async def fill_large(client: SlurmClient) -> int:
    """1,200 hosts are busy with jobs that end at different times, and 1,000 jobs wait; the id of one."""
    for hours in range(1, 13):
        ids = await start_many(client, 100, job("large", CORES, memory_per_node=number(100), hours=hours * 4))
    for hosts in (1, 2, 4, 8):
        request = job("large", CORES, memory_per_node=number(100), hours=6, tasks=hosts, minimum_nodes=hosts)
        await submit_many(client, 250, request)
    return ids[0]


async def slowest_answer(cluster: PresetCluster, client: SlurmClient) -> float:
    """The slowest answer about a job while backfill runs twice."""
    job_id = await fill_large(client)
    runs = asyncio.create_task(backfill_runs(client, 2))
    slowest = 0.0
    while not runs.done():
        begin = time.monotonic()
        await client.job(job_id)
        slowest = max(slowest, time.monotonic() - begin)
        await asyncio.sleep(0.02)
    return slowest


async def rank_of_a_small_job(cluster: PresetCluster, client: SlurmClient) -> float:
    """The place of a job of one core among 20 jobs of all hosts that came before it."""
    await start_many(client, 16, job("small", CORES, memory_per_node=number(100)))
    await submit_many(client, 20, job("small", CORES, memory_per_node=number(100), tasks=16, minimum_nodes=16))
    small = (await client.submit(job("small", memory_per_node=number(100)))).job_id
    await asyncio.sleep(5)
    queue = cluster.slurm.exec("squeue", "-h", "-t", "PD", "--sort=-p,i", "-o", "%i").split()
    return queue.index(str(small)) + 1


LARGE = {"SchedulerParameters": "bf_continue,bf_interval=10,bf_window=4320,bf_max_job_test=1000"}
MEASUREMENTS = (
    Measurement("`DefMemPerCPU=1024`", "teaching, throughput, large",
                "jobs without a request for memory that run at once on a host of 16 cores", jobs_without_memory,
                preset={"DefMemPerCPU": "1024"}),
    Measurement("`DefCpuPerGPU=2`, `DefMemPerGPU=7000`", "GPU training",
                "jobs of one GPU that run at once on a host of 8 GPUs", jobs_with_a_gpu,
                preset_partition="MaxTime=30-00:00:00 DefCpuPerGPU=2 DefMemPerGPU=7000"),
    Measurement("`EnforcePartLimits=ALL`", "teaching, GPU training",
                "jobs longer than `MaxTime` that are accepted, and wait for ever", impossible_job,
                preset={"EnforcePartLimits": "ALL"}, default_partition="MaxTime=60", preset_partition="MaxTime=60"),
    Measurement("`batch_sched_delay=0`", "throughput, large",
                "seconds from submission to start on an idle cluster", start_of_a_batch_job,
                preset={"SchedulerParameters": "batch_sched_delay=0"}),
    Measurement("`bf_max_job_user=10`", "teaching",
                "seconds until a short job of bob starts, behind 600 jobs of alice", behind_another_user,
                default={"SchedulerParameters": "bf_continue,bf_max_job_test=200"},
                preset={"SchedulerParameters": "bf_continue,bf_max_job_test=200,bf_max_job_user=10"}),
    Measurement("`bf_window=10080`", "GPU training (large: 4320)",
                "jobs of five days that overtake a job for all hosts, which waits for two days", overtaken,
                default={"SchedulerParameters": "bf_interval=5"},
                preset={"SchedulerParameters": "bf_interval=5,bf_window=10080,bf_resolution=300"}),
    Measurement("`bf_yield_interval=500000`", "throughput, large",
                "slowest answer about one job in seconds while backfill runs, 1,200 hosts and 1,000 waiting jobs",
                slowest_answer,
                default=LARGE,
                preset={"SchedulerParameters": f"{LARGE['SchedulerParameters']},bf_yield_interval=500000"}),
    Measurement("`PriorityFavorSmall=YES`", "teaching",
                "place of a job of one core among 20 older jobs for all hosts", rank_of_a_small_job,
                default={"PriorityWeightJobSize": "1000"},
                preset={"PriorityWeightJobSize": "1000", "PriorityFavorSmall": "YES"}),
)  # fmt: skip


def measure_all(names: Sequence[str]) -> None:
    """Measure each parameter, or those with one of these names, without and with it; each row is written at once."""
    with started() as cluster:
        cluster.configure({}, MEASUREMENTS[0].default_partition)
        cluster.create_hosts()
        for item in MEASUREMENTS:
            if names and not any(name in item.name for name in names):
                continue
            row: Row = {"parameter": item.name, "presets": item.presets, "measured": item.question}
            for column in ("default", "preset"):
                cluster.configure(getattr(item, column), getattr(item, f"{column}_partition"))
                row[column] = round(asyncio.run(_measure(cluster, item.measure)), 3)
            print(f"{item.name}: {item.question}: {row['default']:g} -> {row['preset']:g}", flush=True)
            write(row)


async def _measure(cluster: PresetCluster, measure: Measure) -> float:
    async with cluster.client() as client:
        try:
            return await measure(cluster, client)
        finally:
            await cluster.clear()


def write(row: Row) -> None:
    """Replace a row of the results, and the table of the documentation."""
    rows = {item["parameter"]: item for item in (json.loads(RESULTS.read_text()) if RESULTS.exists() else [])}
    rows[row["parameter"]] = row
    kept = [rows[item.name] for item in MEASUREMENTS if item.name in rows]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{render(kept)}\n{END}{rest.partition(END)[2]}")


def render(rows: Sequence[Row]) -> str:
    """The table of the documentation."""
    lines = ["| parameter | presets | what was measured | without | with |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        is_time = "seconds" in str(row["measured"])
        numbers = " | ".join(_show(float(row[column]), is_time=is_time) for column in ("default", "preset"))
        lines.append(f"| {row['parameter']} | {row['presets']} | {row['measured']} | {numbers} |")
    return "\n".join(lines) + "\n"


def _show(value: float, *, is_time: bool) -> str:
    return f"more than {LIMIT:g}" if is_time and value >= LIMIT else f"{value:.3g}"


if __name__ == "__main__":
    measure_all(sys.argv[1:])
