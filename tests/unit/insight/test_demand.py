# SPDX-License-Identifier: Apache-2.0
"""The demand of a queue: cases as a table, and laws that hold for any queue and any pools."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight.demand import Outcome, QueueDemand, compute_demand
from slinky.insight.job_shape import JobShape, PendingDemand
from slinky.insight.worker_pool import FreeCapacity, WorkerPool, WorkerShape, free_workers, host_shape
from slinky.slurm import Host

GPU = (("gpu", "a100"), 4)
SHAPE = WorkerShape(8, 64, (GPU,), frozenset({"burst", "ib"}))
FREE = SHAPE.free


def pool(name: str = "burst", growth: int = 4, **fields: object) -> WorkerPool:
    values = {"partitions": frozenset({name}), "shape": SHAPE, "growth": growth, **fields}
    return WorkerPool(name, **values)  # type: ignore[arg-type]


def job(number: int = 1, tasks: int = 1, priority: int = 0, **shape: object) -> PendingDemand:
    fields = {"partitions": ("burst",), **shape}
    return PendingDemand(number, (JobShape(**fields),), tasks, priority)  # type: ignore[arg-type]


def gang(nodes: int, number: int = 1, partition: str = "burst", segment: int = 0) -> PendingDemand:
    return job(number, min_nodes=nodes, max_nodes=nodes, cpus=8 * nodes, partitions=(partition,), segment=segment)


def in_block(block: str) -> FreeCapacity:
    return FREE._replace(block=block)


def outcomes(demand: QueueDemand) -> list[Outcome]:
    return [verdict.outcome for verdict in sorted(demand.verdicts)]


#: What is pending, the pools, the new workers, and the outcome of each job.
S, G, W, N, B = Outcome.STARTS, Outcome.GROWS, Outcome.WAITS, Outcome.IMPOSSIBLE, Outcome.BLOCKED
CASES: dict[str, tuple[list[PendingDemand], list[WorkerPool], dict[str, int], list[Outcome]]] = {
    "nothing is pending": ([], [pool()], {}, []),
    "a single job": ([job()], [pool()], {"burst": 1}, [G]),
    "jobs share a worker": ([job(1, cpus=4), job(2, cpus=4)], [pool()], {"burst": 1}, [G, G]),
    "jobs that need whole workers": ([job(n, cpus=8) for n in range(3)], [pool()], {"burst": 3}, [G, G, G]),
    "exclusive jobs": ([job(n, exclusive=True) for n in range(2)], [pool()], {"burst": 2}, [G, G]),
    "an array of 100,000 tasks": ([job(tasks=100_000)], [pool(growth=40_000)], {"burst": 12_500}, [G]),
    "an array beyond the maximum": ([job(tasks=100_000)], [pool(growth=10)], {"burst": 10}, [G]),
    "an array of gangs": ([dataclasses.replace(gang(2), tasks=3)], [pool(growth=6)], {"burst": 6}, [G]),
    "memory decides": ([job(1, memory_per_node=40), job(2, memory_per_node=40)], [pool()], {"burst": 2}, [G, G]),
    "devices decide": ([job(n, gres_per_node=((("gpu", ""), 2),)) for n in range(3)], [pool()], {"burst": 2}, [G] * 3),
    "devices of another type": ([job(gres_per_node=((("gpu", "h100"), 1),))], [pool()], {}, [N]),
    "features match": ([job(features="ib&burst")], [pool()], {"burst": 1}, [G]),
    "features do not match": ([job(features="roce")], [pool()], {}, [N]),
    "a gang": ([gang(2)], [pool()], {"burst": 2}, [G]),
    "a gang beyond the maximum": ([gang(5)], [pool()], {}, [N]),
    "a gang while the pool may not grow": ([gang(2)], [pool(growth=0, limit=4, pause="no node")], {}, [W]),
    "a gang that waits for running work": ([gang(5)], [pool(size=2)], {}, [W]),
    "a gang uses free workers first": ([gang(3)], [pool(free={FREE: 2}, size=2)], {"burst": 1}, [G]),
    "free workers suffice": ([job()], [pool(free={FREE: 1}, size=1)], {}, [S]),
    "a busy worker has room": ([job(cpus=3)], [pool(free={FreeCapacity(3, 64, (), False): 1}, size=1)], {}, [S]),
    "a job larger than a worker": ([job(cpus=9, max_nodes=1)], [pool()], {}, [N]),
    "tasks spread over workers": ([job(cpus=20)], [pool()], {"burst": 3}, [G]),
    "more memory than a worker has": ([job(memory_per_node=65)], [pool()], {}, [N]),
    "a partition without workers": ([job(partitions=("other",))], [pool()], {}, [N]),
    "two partitions over one pool": (
        [job(partitions=("a", "b"))],
        [pool(partitions=frozenset({"a", "b"}))],
        {"burst": 1},
        [G],
    ),
    "the cheaper pool grows first": (
        [job(n, cpus=8, partitions=("p",)) for n in range(3)],
        [
            pool("dear", weight=2, partitions=frozenset({"p"})),
            pool("cheap", growth=2, weight=1, partitions=frozenset({"p"})),
        ],
        {"cheap": 2, "dear": 1},
        [G, G, G],
    ),
    "a gang over two pools": (
        [gang(5, partition="p")],
        [pool("a", partitions=frozenset({"p"})), pool("b", partitions=frozenset({"p"}))],
        {"a": 4, "b": 1},
        [G],
    ),
    "a heterogeneous job": (
        [PendingDemand(1, (JobShape(("burst",), cpus=8), JobShape(("burst",), 2, 2, 16)))],
        [pool()],
        {"burst": 3},
        [G],
    ),
    "a heterogeneous job that does not fit as a whole": (
        [PendingDemand(1, (JobShape(("burst",), cpus=8), JobShape(("burst",), 4, 4, 32)))],
        [pool()],
        {},
        [W],
    ),
    "priority comes first": (
        [job(1, cpus=8, priority=1), job(2, cpus=8, priority=5)],
        [pool(growth=1)],
        {"burst": 1},
        [W, G],
    ),
    "a gang in segments does not use workers of different blocks": (
        [gang(4, segment=2)],
        [pool(growth=8, free={in_block("a"): 3, in_block("b"): 1}, size=4)],
        {"burst": 2},
        [G],
    ),
    "a gang in segments uses whole segments": (
        [gang(4, segment=4)],
        [pool(growth=8, free={in_block("a"): 3, in_block("b"): 3}, size=6)],
        {"burst": 4},
        [G],
    ),
    "a gang in segments of which the pool may have no further one": (
        [gang(4, segment=4)],
        [pool(growth=3, free={in_block("a"): 3}, size=3)],
        {},
        [W],
    ),
    "an account has a limit": (
        [dataclasses.replace(job(n, cpus=8), account="physics") for n in range(3)],
        [pool(account_growth={"physics": 2})],
        {"burst": 2},
        [G, G, W],
    ),
    "other accounts have none": (
        [dataclasses.replace(job(n, cpus=8), account=name) for n, name in enumerate(("physics", "chemistry"))],
        [pool(account_growth={"physics": 0})],
        {"burst": 1},
        [W, G],
    ),
    "workers that are starting for an account count": (
        [dataclasses.replace(job(n, cpus=8), account="physics") for n in range(3)],
        [pool(free={FREE: 1}, size=1, account_growth={"physics": 2})],
        {"burst": 1},
        [S, G, W],
    ),
    "a gang larger than what is left for its account": (
        [dataclasses.replace(gang(3), account="physics")],
        [pool(account_growth={"physics": 2})],
        {},
        [W],
    ),
    "workers do not help": (
        [PendingDemand(1, (JobShape(("burst",)),), obstacle="The job is held.")],
        [pool()],
        {},
        [B],
    ),
    "workers of unknown shape are tried with one job": (
        [job(n) for n in range(9)],
        [pool(shape=None)],
        {"burst": 1},
        [G, *[W] * 8],
    ),
    "a gang of workers of unknown shape": ([gang(2)], [pool(shape=None)], {"burst": 2}, [G]),
    "a fixed pool never grows": ([job()], [pool(growth=0, size=3)], {}, [W]),
    "a set whose maximum is 0": ([job()], [pool(growth=0)], {}, [W]),
}


@pytest.mark.parametrize("case", CASES)
def test_demand(case: str) -> None:
    pending, pools, new, expected = CASES[case]
    demand = compute_demand(pending, pools)
    assert dict(demand.new_workers) == new
    assert outcomes(demand) == expected


def test_an_impossible_job_is_told_why() -> None:
    texts = [
        compute_demand([pending], [pool(size=1)]).verdicts[0].text
        for pending in (
            job(cpus=9, max_nodes=1),
            job(memory_per_node=65 * 2**20),
            job(gres_per_node=((("gpu", "a100"), 9),)),
            job(features="roce"),
            gang(6),
        )
    ]
    assert texts == [
        "it needs 9 CPUs on one node, more than the 8 of a worker of burst",
        "it needs 65 MB of memory on one node, more than the 0 MB of a worker of burst",
        "it needs 9 of gpu:a100 on one node, more than the 4 of a worker of burst",
        "the workers of burst do not have the features roce",
        "it needs 6 workers at the same time, more than the 5 that burst may have",
    ]


def test_a_job_that_waits_for_a_pool_that_may_not_grow_is_told_why() -> None:
    paused = pool(growth=0, limit=4, pause="NodeSet burst: 2 workers did not come: quota")
    demand = compute_demand([gang(2), gang(5, number=2), job(3)], [paused])
    assert demand.paused == dict.fromkeys((1, 3), paused.pause)
    (verdict,) = [item for item in demand.verdicts if item.job_id == 1]
    assert verdict.text == f"it waits for new workers: {paused.pause}"
    assert [item.job_id for item in demand.of(Outcome.IMPOSSIBLE)] == [2]


def test_a_job_that_waits_because_of_its_account_is_told_so() -> None:
    pending = dataclasses.replace(job(), account="physics")
    demand = compute_demand([pending], [pool(account_growth={"physics": 0})])
    assert demand.paused == {1: "NodeSet burst: the account physics has as many workers as it may have"}


def test_idle_workers_that_jobs_will_use_are_claimed() -> None:
    demand = compute_demand([job(cpus=8), job(2)], [pool(free={FREE: 3}, size=3)])
    assert dict(demand.claimed_idle) == {"burst": 2}


def test_no_growth_for_a_job_that_starts_soon_anyway() -> None:
    pending = dataclasses.replace(job(cpus=8), expected_start=1100)
    pools = [pool(patience_seconds=300, size=1)]
    assert compute_demand([pending], pools, now=1000).new_workers == {}
    assert compute_demand([pending], pools, now=500).new_workers == {"burst": 1}


def test_free_capacity_is_what_jobs_left() -> None:
    host = Host(
        "w", words=("MIXED",), cpus=8, alloc_cpus=3, real_memory=100, alloc_memory=40, gres="gpu:a100:4",
        gres_used="gpu:a100:1(IDX:0)", features=("ib",),
    )  # fmt: skip
    down = Host("d", words=("IDLE", "DRAIN"), cpus=8)
    reserved = Host("r", words=("IDLE", "RESERVED"), cpus=8, reservation="course")
    assert free_workers([host, down, reserved], 1, host_shape(host)) == {
        FreeCapacity(5, 60 * 2**20, ((("gpu", "a100"), 3),), False): 1,
        FreeCapacity(8, 100 * 2**20, ((("gpu", "a100"), 4),)): 1,
    }


# Laws ----------------------------------------------------------------------------------------------------------------

shapes = st.builds(
    WorkerShape,
    cpus=st.integers(1, 16),
    memory_bytes=st.integers(0, 64),
    gres=st.sampled_from([(), (GPU,)]),
    features=st.just(frozenset({"ib"})),
)


@st.composite
def pools(draw: st.DrawFn, index: int = 0) -> WorkerPool:
    shape = draw(shapes)
    idle, busy = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    free = {shape.free: idle} if idle else {}
    partitions = draw(st.sets(st.sampled_from(["a", "b"]), min_size=1))
    return WorkerPool(
        f"pool-{index}",
        frozenset(partitions),
        shape,
        free,
        idle + busy,
        draw(st.integers(0, 6)),
        draw(st.integers(0, 2)),
    )


jobs = st.builds(
    lambda number, tasks, priority, partitions, nodes, cpus, memory, gpus, exclusive: PendingDemand(
        number,
        (
            JobShape(
                tuple(sorted(partitions)),
                nodes,
                nodes,
                cpus * nodes,
                memory_per_node=memory,
                gres_per_node=((("gpu", ""), gpus),) if gpus else (),
                exclusive=exclusive,
            ),
        ),
        tasks,
        priority,
    ),
    st.integers(1, 10**6),
    st.sampled_from([1, 1, 3, 50]),
    st.integers(0, 3),
    st.sets(st.sampled_from(["a", "b"]), min_size=1),
    st.integers(1, 4),
    st.integers(1, 18),
    st.integers(0, 70),
    st.integers(0, 5),
    st.booleans(),
)
queues = st.lists(jobs, max_size=8, unique_by=lambda item: item.job_id)
sites = st.tuples(pools(0), pools(1)).map(list)


@given(queues, sites)
def test_no_pool_grows_beyond_its_maximum_and_no_idle_worker_is_claimed_twice(
    queue: list[PendingDemand], site: list[WorkerPool]
) -> None:
    demand = compute_demand(queue, site)
    for item in site:
        assert demand.new_workers.get(item.name, 0) <= item.growth
        assert demand.claimed_idle.get(item.name, 0) <= sum(item.free.values())
    assert Counter(verdict.job_id for verdict in demand.verdicts) == Counter(item.job_id for item in queue)


@given(queues, pools())
def test_workers_that_have_come_are_not_asked_for_again(queue: list[PendingDemand], item: WorkerPool) -> None:
    """With the new workers there, the jobs that asked for them start."""
    demand = compute_demand(queue, [item])
    placed = {verdict.job_id for verdict in demand.of(Outcome.GROWS, Outcome.STARTS)}
    new = demand.new_workers.get(item.name, 0)
    assert item.shape is not None
    free = Counter({**item.free, item.shape.free: item.free.get(item.shape.free, 0) + new})
    after = dataclasses.replace(item, free=+free, size=item.size + new, growth=item.growth - new)
    again = compute_demand([job for job in queue if job.job_id in placed and job.tasks == 1], [after])
    assert {verdict.outcome for verdict in again.verdicts} <= {Outcome.STARTS}


@given(jobs, sites)
def test_a_gang_gets_all_workers_or_none(item: PendingDemand, site: list[WorkerPool]) -> None:
    one = dataclasses.replace(item, tasks=1)
    demand = compute_demand([one], site)
    workers = sum(demand.new_workers.values()) + sum(demand.claimed_idle.values())
    assert workers in {0, one.shapes[0].min_nodes}


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 20), st.integers(0, 5))
def test_segments_are_never_split(segments: int, size: int, tasks: int, growth: int, free: int) -> None:
    pending = dataclasses.replace(gang(segments * size, segment=size), tasks=tasks)
    site = pool(growth=growth, free={in_block(name): free for name in ("a", "b") if free}, size=2 * free)
    demand = compute_demand([pending], [site])
    assert demand.new_workers.get("burst", 0) % size == 0
    assert demand.claimed_idle.get("burst", 0) % size == 0


@given(jobs, sites, st.integers(1, 12))
def test_an_array_needs_what_its_tasks_need_as_single_jobs(
    item: PendingDemand, site: list[WorkerPool], tasks: int
) -> None:
    array = compute_demand([dataclasses.replace(item, tasks=tasks)], site)
    singles = compute_demand([dataclasses.replace(item, job_id=n, tasks=1) for n in range(tasks)], site)
    assert array.new_workers == singles.new_workers


@given(queues, sites)
def test_an_impossible_job_is_impossible_however_the_queue_looks(
    queue: list[PendingDemand], site: list[WorkerPool]
) -> None:
    together = {verdict.job_id for verdict in compute_demand(queue, site).of(Outcome.IMPOSSIBLE)}
    alone = {item.job_id for item in queue if compute_demand([item], site).of(Outcome.IMPOSSIBLE)}
    assert together == alone
