# SPDX-License-Identifier: Apache-2.0
"""The forecast: no job delays one before it, resources are never given twice, and ranges say where they come from."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.insight.queues import NOW, cluster, host, job, running

from slinky.insight.forecast import StartSource, forecast
from slinky.insight.forecast.availability import lowest_bits
from slinky.insight.forecast.simulation import UseRatios, simulate
from slinky.insight.forecast.start_range import EARLY_QUANTILE, use_ratios
from slinky.insight.job_requirements import requirements
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Diag, Job, License, Reservation, number
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime

HOUR = 3600


def starts(snapshot: QueueSnapshot, *, whole_nodes: bool = True) -> dict[int, int | None]:
    """The simulated starts in seconds from now."""
    planned = simulate(snapshot, whole_nodes=whole_nodes)
    return {number: None if start.begin is None else start.begin - int(NOW) for number, start in planned.items()}


def test_a_job_waits_for_the_end_of_a_running_one() -> None:
    assert starts(cluster(running(9, "n1", cpus=16), job(1, cpus=16), hosts=1)) == {1: HOUR - 600}


def test_a_forecast_of_some_jobs_has_the_same_figures() -> None:
    jobs = [job(index, nodes=1 + index % 3, priority=number(1000 - index)) for index in range(1, 30)]
    snapshot = cluster(*jobs, running(99, "n[1-2]", nodes=2), hosts=tuple(host(f"n{index}") for index in (1, 2, 3)))
    whole = forecast(snapshot)
    some = forecast(snapshot, until={7, 12})
    assert list(some) == list(whole)[:12]
    assert some == {job: whole[job] for job in some}
    assert forecast(snapshot, until=()) == {}


def test_a_short_job_starts_before_a_large_one_but_does_not_delay_it() -> None:
    large, short, long = job(1, nodes=2), job(2, minutes=30), job(3, minutes=600)
    busy = running(9, "n1", cpus=16)
    assert starts(cluster(busy, large, short, long, hosts=2)) == {1: 3000, 2: 0, 3: 3000 + HOUR}
    # On shared nodes the long job has room beside the large one.
    assert starts(cluster(busy, large, short, long, hosts=2), whole_nodes=False) == {1: 3000, 2: 0, 3: 0}


def test_a_reservation_is_respected_and_used_by_its_own_jobs() -> None:
    maintenance = Reservation(name="m", node_list="n1", start_time=number(NOW + 1800), end_time=number(NOW + 7200))
    snapshot = cluster(job(1), job(2, minutes=20, cpus=16), job(3, resv_name="m"), hosts=1, reservations=(maintenance,))
    assert starts(snapshot) == {3: 1800, 1: 7200, 2: 0}


def test_licences_are_counted() -> None:
    pool = License(license_name="lic", total=4, used=3, free=1)
    snapshot = cluster(running(9, "n1", licenses="lic:3"), job(1, licenses="lic:2"), licenses=(pool,))
    assert starts(snapshot) == {1: 3000}


def test_gpus_and_types_are_counted() -> None:
    hosts = (host("n1", gres="gpu:h100:4"), host("n2", gres="gpu:a100:4"))
    typed = job(2, tres_req_str="cpu=1,node=1,gres/gpu=4,gres/gpu:h100=4")
    assert starts(cluster(running(9, "n1", gpus=2), job(1, gpus=4), typed, hosts=hosts)) == {1: 0, 2: 3000}


def test_tasks_of_an_array_start_one_after_another_within_its_limit() -> None:
    array = job(1, array_job_id=number(1), array_task_string="0-5%2", array_max_tasks=number(2))
    planned = simulate(cluster(array))[1]
    assert (planned.begin, planned.last) == (NOW, NOW + 2 * HOUR)


def test_a_dependency_waits_for_the_planned_end() -> None:
    snapshot = cluster(job(1, cpus=16), job(2, dependency="afterok:1(unfulfilled)", state_reason="Dependency"), hosts=1)
    assert starts(snapshot) == {1: 0, 2: HOUR}


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (job(1, hold=True), "held"),
        (job(1, state_reason="QOSGrpGRES"), "QOSGrpGRES"),
        (job(1, nodes=9), "no 9 nodes that are up"),
        (job(1, state_reason="InvalidAccount"), "InvalidAccount"),
        (job(1, dependency="singleton(unfulfilled)", state_reason="Dependency"), "dependency"),
        (job(1, resv_name="gone"), "reservation does not exist"),
    ],
)
def test_a_job_without_forecast_says_why(subject: Job, why: str) -> None:
    entry = forecast(cluster(subject))[1]
    assert entry.source is StartSource.NONE
    assert why in entry.text(NOW)


def test_a_fresh_plan_of_slurmctld_is_used_and_an_old_one_is_not() -> None:
    diag = Diag(bf_when_last_cycle=number(NOW - 5), bf_cycle_last=1_000_000)
    planned: dict[str, Any] = {"start_time": number(NOW + 900), "scheduled_nodes": "n2"}
    fresh = job(1, last_sched_evaluation=number(NOW - 6), **planned)
    old = job(2, last_sched_evaluation=number(NOW - 600), **planned)
    ranges = forecast(cluster(fresh, old, diag=diag))
    assert (ranges[1].source, ranges[1].latest, ranges[1].hosts) == (StartSource.SLURMCTLD, NOW + 900, ("n2",))
    assert ranges[2].source is StartSource.SIMULATION


def test_a_plan_for_a_drained_node_is_not_relied_on() -> None:
    drained = (host("n1", words=("IDLE", "DRAIN"), reason="fan"), host("n2"), host("n3", words=("DOWN",)))
    planned: dict[str, Any] = {"start_time": number(NOW + 900), "last_sched_evaluation": number(NOW - 6)}
    required = job(1, required_nodes="n1", **planned)
    several = job(2, nodes=2, required_nodes="n[1,3]", **planned)
    elsewhere = job(3, scheduled_nodes="n1", **planned)
    ranges = forecast(cluster(required, several, elsewhere, hosts=drained))
    assert [ranges[number].source for number in (1, 2)] == [StartSource.NONE] * 2
    assert ranges[1].text(NOW) == (
        "no forecast: the node n1, which it requires, is drained; slurmctld's plan (in 15 min) does not consider this"
    )
    assert "2 nodes n[1,3], which it requires, are down or drained" in ranges[2].text(NOW)
    # A node of the plan that is drained leaves others: the simulation knows when.
    assert (ranges[3].source, ranges[3].earliest) == (StartSource.SIMULATION, NOW)


def test_a_required_node_that_is_drained_is_not_replaced_by_another() -> None:
    hosts = (host("n1", words=("IDLE", "DRAIN")), host("n2"))
    assert starts(cluster(job(1, required_nodes="n1"), hosts=hosts)) == {1: None}


def test_the_early_end_rests_on_past_use() -> None:
    history = tuple(
        AccountingJob(
            job_id=n,
            user="alice",
            state_record=AccountingJobState(current=("COMPLETED",)),
            time=AccountingJobTime(elapsed=1800, limit=number(60)),
        )
        for n in range(5)
    )
    assert use_ratios(history) == UseRatios({"alice": (0.5,) * 5}, (0.5,) * 5, EARLY_QUANTILE)
    snapshot = cluster(running(9, "n1", cpus=16), job(1, cpus=16), hosts=1, history=history)
    entry = forecast(snapshot)[1]
    assert (entry.earliest, entry.latest) == (NOW + 1200, NOW + 3000)
    assert entry.text(NOW) == "in 20 min to 50 min (simulation)"


def test_a_drained_node_is_not_counted_on_and_one_in_maintenance_is() -> None:
    hosts = (host("n1", words=("IDLE", "DRAIN")), host("n2", words=("IDLE", "MAINTENANCE")))
    assert starts(cluster(job(1, nodes=2), job(2), hosts=hosts)) == {1: None, 2: 0}


def test_a_busy_node_whose_jobs_are_hidden_is_not_counted_on() -> None:
    assert starts(cluster(job(1), hosts=(host("n1", words=("ALLOCATED",), alloc_cpus=16),))) == {1: None}


JOBS = st.lists(
    st.builds(
        lambda nodes, cpus, gpus, minutes, exclusive: (nodes, cpus, gpus, minutes, exclusive),
        st.integers(1, 4),
        st.integers(1, 16),
        st.integers(0, 8),
        st.integers(1, 300),
        st.booleans(),
    ),
    max_size=12,
)


def build(shapes: list[tuple[int, int, int, int, bool]]) -> QueueSnapshot:
    pending = [
        job(number, nodes=nodes, cpus=cpus, gpus=gpus, minutes=minutes, shared=("none",) if exclusive else ())
        for number, (nodes, cpus, gpus, minutes, exclusive) in enumerate(shapes, 1)
    ]
    return cluster(running(900, "n[1-2]", cpus=4, gpus=3), *pending)


@given(JOBS, st.booleans())
def test_no_resource_is_given_twice(shapes: list[tuple[int, int, int, int, bool]], whole_nodes: bool) -> None:
    snapshot = build(shapes)
    planned = simulate(snapshot, whole_nodes=whole_nodes)
    needs = {entry.job_id: requirements(entry) for entry in snapshot.pending}
    for moment in {start.begin for start in planned.values()}:
        assert moment is not None
        cpus, gpus, users = Counter[str](), Counter[str](), Counter[str]()
        if moment < NOW + 3000:
            cpus.update({"n1": 4, "n2": 4})
            gpus.update({"n1": 3, "n2": 3})
            users.update(["n1", "n2"])
        exclusive = set[str]()
        for job_id, start in planned.items():
            if start.begin is not None and start.begin <= moment < start.end:
                assert len(set(start.hosts)) == needs[job_id].nodes
                for name in start.hosts:
                    cpus[name] += needs[job_id].cpus
                    gpus[name] += needs[job_id].gres.get(("gpu", ""), 0)
                    users[name] += 1
                    if needs[job_id].exclusive:
                        exclusive.add(name)
        assert max(cpus.values(), default=0) <= 16
        assert max(gpus.values(), default=0) <= 8
        assert all(users[name] == 1 for name in exclusive)


@given(JOBS)
def test_a_job_at_the_end_of_the_queue_delays_nobody(shapes: list[tuple[int, int, int, int, bool]]) -> None:
    before = starts(build(shapes))
    after = starts(build([*shapes, (2, 8, 4, 500, False)]))
    assert {number: after[number] for number in before} == before


@given(st.integers(min_value=0, max_value=2**80), st.integers(0, 90))
def test_the_lowest_bits(bits: int, count: int) -> None:
    chosen = lowest_bits(bits, count)
    assert chosen & ~bits == 0
    assert chosen.bit_count() == min(count, bits.bit_count())
    assert not chosen or bits & ((1 << chosen.bit_length()) - 1) == chosen
