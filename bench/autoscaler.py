# SPDX-License-Identifier: Apache-2.0
"""The autoscaler: CPU time of the demand of a long queue, and the time until a job's worker exists.

    python -m bench.autoscaler

The first part needs no lab: 10,000 pending jobs of many shapes, gangs, and arrays of thousands of tasks, over 50
NodeSets. The second part uses a real slurmctld and a real API server: a job on an empty NodeSet beside 1,000 other
pending jobs, and the floor of the same run. Stores the figures in `bench/results/autoscaler.json`, and exits with 1 if
a limit is exceeded.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

import msgspec

from bench.autoscaler_reaction import measure_growth
from bench.core_kube import Figure
from bench.operator_cluster import running_lab
from slinky.insight.demand import Outcome, compute_demand
from slinky.insight.job_shape import JobShape, PendingDemand
from slinky.insight.worker_pool import FreeCapacity, WorkerPool, WorkerShape

JOBS, NODE_SETS, RUNS = 10_000, 50, 7
#: Seconds of CPU time for the demand, and from a pending job to the pod of its worker.
DEMAND_LIMIT, GROWTH_LIMIT = 0.2, 5.0
GIGABYTE = 2**30
RESULTS = Path(__file__).parent / "results" / "autoscaler.json"
PARTS = ("demand", "growth")


def main() -> int:
    """Measure and print; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--others", type=int, default=1000, help="other pending jobs")
    parser.add_argument("--samples", type=int, default=20, help="jobs on empty NodeSets that are measured")
    parser.add_argument("--lab", default="", help="name of a running lab with hollow nodes and a Slurm")
    options = parser.parse_args()
    figures = [_measure_demand()] if "demand" in options.only else []
    raw: dict[str, float] = {}
    if "growth" in options.only:
        with running_lab(options.lab) as lab:
            raw = asyncio.run(measure_growth(lab, options.others, options.samples))
        what = f"pending job on an empty NodeSet to its pod, beside {options.others} pending jobs: p95"
        figures.append(Figure(what, raw["p95"], GROWTH_LIMIT, "s"))
        print(f"floor of the same run: {raw['floor p95']:.2f} s; median: {raw['median']:.2f} s")
    for figure in figures:
        print(f"{figure.what}: {figure.found:.3f} {figure.unit}, limit {figure.limit:g}, met: {figure.met}")
    if set(options.only) == set(PARTS):
        rows = [{**asdict(figure), "met": figure.met} for figure in figures]
        results = {"figures": rows, "raw": {**raw, "samples": options.samples}, "load": os.getloadavg()[0]}
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    return int(not all(figure.met for figure in figures))


def _measure_demand() -> Figure:
    seed = random.Random(1)
    pools = [_pool(number, seed) for number in range(NODE_SETS)]
    queue = [_job(number, seed) for number in range(JOBS)]
    seconds = []
    for _ in range(RUNS):
        begin = time.process_time()
        demand = compute_demand(queue, pools)
        seconds.append(time.process_time() - begin)
    outcomes = ", ".join(f"{len(demand.of(outcome))} {outcome.name.lower()}" for outcome in Outcome)
    tasks = sum(job.tasks for job in queue)
    print(f"{JOBS} jobs ({tasks} tasks) over {NODE_SETS} NodeSets: {outcomes}")
    what = f"demand of {JOBS} pending jobs over {NODE_SETS} NodeSets, CPU time"
    return Figure(what, statistics.median(seconds), DEMAND_LIMIT, "s")


def _pool(number: int, seed: random.Random) -> WorkerPool:
    gres = ((("gpu", "a100"), 8),) if number % 2 else ()
    shape = WorkerShape(64, 512 * GIGABYTE, gres, frozenset({f"set-{number}"}))
    busy = {FreeCapacity(seed.randint(1, 60), 64 * GIGABYTE, gres, False): 2 for _ in range(5)}
    partitions = frozenset({f"part-{number % 10}", "all"} if number % 5 == 0 else {f"part-{number % 10}"})
    return WorkerPool(f"set-{number}", partitions, shape, {shape.free: 3, **busy}, 20, 80, number % 3)


def _job(number: int, seed: random.Random) -> PendingDemand:
    nodes = seed.choice([1, 1, 1, 1, 1, 1, 2, 4, 8])
    shape = JobShape(
        partitions=(f"part-{seed.randrange(10)}",),
        min_nodes=nodes,
        max_nodes=nodes,
        cpus=nodes * seed.choice([1, 2, 4, 8, 12, 16, 24, 32, 48, 64]),
        memory_per_node=seed.choice([0, 1, 2, 4, 8, 16, 32, 64, 100, 128, 200, 256, 1000]) * GIGABYTE,
        gres_per_node=seed.choice([(), (), ((("gpu", ""), seed.randint(1, 8)),)]),
    )
    return PendingDemand(number, (shape,), seed.choice([1] * 9 + [1000]), seed.randrange(10**6))


if __name__ == "__main__":
    sys.exit(main())
