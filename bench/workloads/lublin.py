# SPDX-License-Identifier: Apache-2.0
"""The workload model of Lublin and Feitelson (2003): sizes, run times and arrivals of jobs. Pure.

The parameters are those of the paper for all jobs together. The logarithm of the run time has a hyper-gamma
distribution that depends on the size, the logarithm of the size has a two-stage uniform distribution in which powers of
two are frequent, and arrivals follow the cycle of a day. The model knows no time limits: users multiply the run time by
a factor that is typical of them, and round the result up to a popular limit. A tenth of the jobs has a high priority,
so that later jobs overtake earlier ones.
"""

import math
import random
from collections.abc import Iterator

from bench.workloads.swf import WorkloadJob

SERIAL, POWER_OF_TWO = 0.244, 0.576
#: The two-stage uniform distribution of log2(size): low and medium bound, and the share of the first stage.
SIZE_LOW, SIZE_MEDIUM_BELOW_HIGH, FIRST_STAGE = 0.8, 2.5, 0.86
#: Shape and scale of the two gamma distributions of ln(run time), and the share of the first by size.
SHORT_RUNS, LONG_RUNS = (4.2, 0.94), (312.0, 0.03)
SHARE_SLOPE, SHARE_CONSTANT = -0.0054, 0.78
#: Shape and scale of log2(time between arrivals), and of the cycle of a day in buckets of half an hour.
ARRIVALS, CYCLE = (10.2303, 0.4871), (8.1737, 3.9631)
BUCKETS, BUCKET_SECONDS, DAY_BEGINS = 48, 1800, 11
RUN_MAX = 12 * 3600
#: Limits that users ask for, in minutes.
POPULAR_LIMITS = (5, 10, 15, 30, 60, 120, 240, 480, 720, 1440)
USERS = 24
HIGH_PRIORITY = 0.1


def generate_workload(seed: int, nodes: int, days: int, load: float) -> list[WorkloadJob]:
    """The jobs of some days on a cluster with so many nodes; `load` is the share of the nodes that they need."""
    chance = random.Random(seed)
    wanted = load * nodes * days * 86400
    jobs: list[WorkloadJob] = []
    # The model's own load differs by computer: the days are filled until the load suffices, then jobs are left out.
    while sum(job.run * job.nodes for job in jobs) < wanted:
        for submit in _arrivals(chance, days * 86400):
            jobs.append(_job(chance, len(jobs) + 1, submit, nodes))
    chance.shuffle(jobs)
    chosen: list[WorkloadJob] = []
    work = 0
    for job in jobs:
        if work >= wanted:
            break
        chosen.append(job)
        work += job.run * job.nodes
    return sorted(chosen, key=lambda job: (job.submit, job.job_id))


def _job(chance: random.Random, number: int, submit: int, nodes: int) -> WorkloadJob:
    size = _size(chance, nodes)
    run = _run_seconds(chance, size)
    # Few users submit most jobs, as on real clusters.
    user = min(int(chance.expovariate(5 / USERS)), USERS - 1)
    factor = 1.1 + 4 * (user % 8) / 8 + chance.random() / 2
    limit = next((minutes * 60 for minutes in POPULAR_LIMITS if minutes * 60 >= run * factor), RUN_MAX * 2)
    priority = 1 if chance.random() < HIGH_PRIORITY else 0
    return WorkloadJob(number, submit, run, limit, size, f"user{user}", priority)


def _size(chance: random.Random, nodes: int) -> int:
    if chance.random() < SERIAL:
        return 1
    high = math.log2(nodes)
    medium = max(high - SIZE_MEDIUM_BELOW_HIGH, SIZE_LOW)
    low, top = (SIZE_LOW, medium) if chance.random() < FIRST_STAGE else (medium, high)
    exponent = chance.uniform(low, top)
    if chance.random() < POWER_OF_TWO:
        exponent = round(exponent)
    return min(max(round(2**exponent), 1), nodes)


def _run_seconds(chance: random.Random, size: int) -> int:
    share = min(max(SHARE_SLOPE * size + SHARE_CONSTANT, 0.0), 1.0)
    shape, scale = SHORT_RUNS if chance.random() < share else LONG_RUNS
    return min(max(int(math.exp(chance.gammavariate(shape, scale))), 1), RUN_MAX)


def _arrivals(chance: random.Random, seconds: int) -> Iterator[int]:
    """Times of arrivals: gaps pass faster in busy buckets of the day."""
    weights = day_cycle()
    time = 0.0
    while True:
        gap = 2 ** chance.gammavariate(*ARRIVALS)
        while True:
            bucket = int(time // BUCKET_SECONDS)
            weight = weights[bucket % BUCKETS]
            left = (bucket + 1) * BUCKET_SECONDS - time
            if gap <= left * weight:
                time += gap / weight
                break
            gap -= left * weight
            time += left
        if time >= seconds:
            return
        yield int(time)


def day_cycle() -> list[float]:
    """The rate of arrivals of each half hour of a day; the mean is 1."""
    shape, scale = CYCLE
    weights = [0.0] * BUCKETS
    for index in range(DAY_BEGINS, DAY_BEGINS + BUCKETS):
        weights[index % BUCKETS] = index ** (shape - 1) * math.exp(-index / scale)
    mean = sum(weights) / BUCKETS
    return [weight / mean for weight in weights]
