# SPDX-License-Identifier: Apache-2.0
"""CPU time that the demand of a long queue costs: 10,000 pending jobs over 50 NodeSets.

    python -m bench.autoscaler

The queue has jobs of many shapes, gangs, and arrays of thousands of tasks. Prints the median of several runs, and fails
if it exceeds what is promised.
"""

import random
import statistics
import sys
import time

from slinky.insight.demand import Outcome, compute_demand
from slinky.insight.job_shape import JobShape, PendingDemand
from slinky.insight.worker_pool import FreeCapacity, WorkerPool, WorkerShape

JOBS, NODE_SETS, RUNS = 10_000, 50, 7
#: Seconds of CPU time.
ALLOWED = 0.2
GIGABYTE = 2**30


def main() -> int:
    """Measure and print; 1 if the promise is not kept."""
    seed = random.Random(1)
    pools = [_pool(number, seed) for number in range(NODE_SETS)]
    queue = [_job(number, seed) for number in range(JOBS)]
    seconds = []
    for _ in range(RUNS):
        begin = time.process_time()
        demand = compute_demand(queue, pools)
        seconds.append(time.process_time() - begin)
    median = statistics.median(seconds)
    outcomes = ", ".join(f"{len(demand.of(outcome))} {outcome.name.lower()}" for outcome in Outcome)
    print(f"{JOBS} jobs ({sum(job.tasks for job in queue)} tasks) over {NODE_SETS} NodeSets: {outcomes}")
    print(f"demand: {median:.3f} s of CPU time, allowed {ALLOWED} s, ratio {median / ALLOWED:.2f}")
    return int(median > ALLOWED)


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
