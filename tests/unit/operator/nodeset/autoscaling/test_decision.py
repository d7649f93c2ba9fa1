# SPDX-License-Identifier: Apache-2.0
"""Decisions of the autoscaler: what is required of it as a table, and laws that hold in any situation."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import NOW, ago

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, PendingPartition
from slinky.operator.nodeset.autoscaling.decision import (
    MAX_RECORDS,
    PoolDemand,
    ScalingDecision,
    ScalingReason,
    WorkerCounts,
    decide,
    next_status,
    unmet_seconds,
    with_retry,
    workers_not_granted,
)

IDLE = 400.0  # longer than scaleIn.idleFor


def policy(**fields: Any) -> Autoscaling:
    return msgspec.convert({"maxReplicas": 10, **fields}, Autoscaling)


class Case(NamedTuple):
    """One requirement: the situation, and the number of workers with the reason."""

    requirement: str
    expected: tuple[int, str]
    workers: WorkerCounts = WorkerCounts(2)
    demand: PoolDemand | None = PoolDemand()
    policy: Mapping[str, Any] = MappingProxyType({})
    status: Mapping[str, Any] = MappingProxyType({})
    other: str = ""


CASES = (
    # Growing
    Case("pending jobs bring workers", (5, "PendingJobs"), demand=PoolDemand(3, job=7)),
    Case("from zero", (1, "PendingJobs"), WorkerCounts(0), PoolDemand(1)),
    Case("never more than the maximum", (10, "PendingJobs"), demand=PoolDemand(30)),
    Case("at the maximum nothing is added", (10, "Maximum"), WorkerCounts(10), PoolDemand(3)),
    Case("the minimum is provided without jobs", (3, "Minimum"), WorkerCounts(0), policy={"minReplicas": 3}),
    Case("workers that start are not requested again", (2, "Steady"), WorkerCounts(2, starting=2), PoolDemand(0, 2)),
    Case("the warm pool is filled", (4, "WarmPool"), WorkerCounts(2), policy={"warmPool": 2}),
    Case(
        "the warm pool is in addition to demand",
        (5, "PendingJobs"),
        WorkerCounts(2),
        PoolDemand(1),
        policy={"warmPool": 2},
    ),
    Case(
        "idle workers that jobs will use are not warm",
        (3, "WarmPool"),
        WorkerCounts(2, idle_seconds=(1.0,)),
        PoolDemand(0, claimed=1),
        policy={"warmPool": 1},
    ),
    Case("starting workers are warm", (2, "Steady"), WorkerCounts(2, starting=1), policy={"warmPool": 1}),
    Case("a step limits growth", (4, "PendingJobs"), demand=PoolDemand(5), policy={"scaleOut": {"maxStep": 2}}),
    Case(
        "growth cools down",
        (2, "CoolingDown"),
        demand=PoolDemand(5),
        policy={"scaleOut": {"cooldown": "1m"}},
        status={"lastScaleOutTime": ago(30)},
    ),
    Case(
        "growth after the cool-down",
        (7, "PendingJobs"),
        demand=PoolDemand(5),
        policy={"scaleOut": {"cooldown": "1m"}},
        status={"lastScaleOutTime": ago(61)},
    ),
    Case("whole blocks are added", (8, "PendingJobs"), WorkerCounts(4), PoolDemand(1), policy={"blockSize": 4}),
    Case("no part of a block", (8, "Maximum"), WorkerCounts(8), PoolDemand(1), policy={"blockSize": 4}),
    Case(
        "the budget of the day ends growth",
        (2, "BudgetUsedUp"),
        demand=PoolDemand(1),
        policy={"workerHoursPerDay": 10},
        status={"usedDay": "2026-11-16", "usedSeconds": 9 * 3600, "usedSince": ago(1800)},
    ),
    Case(
        "the budget of another day does not count",
        (3, "PendingJobs"),
        demand=PoolDemand(1),
        policy={"workerHoursPerDay": 30},
        status={"usedDay": "2026-11-15", "usedSeconds": 90 * 3600, "usedSince": ago(86400)},
    ),
    Case(
        "a window raises the maximum",
        (20, "PendingJobs"),
        demand=PoolDemand(30),
        policy={"windows": [{"start": "10:00", "end": "14:00", "maxReplicas": 20}]},
    ),
    Case(
        "outside of its time a window does not count",
        (10, "PendingJobs"),
        demand=PoolDemand(30),
        policy={"windows": [{"start": "14:00", "end": "16:00", "maxReplicas": 20}]},
    ),
    Case("a window sets a minimum", (5, "Minimum"), policy={"windows": [{"days": ["Mon"], "minReplicas": 5}]}),
    Case("workers come before a reservation", (4, "Reservation"), WorkerCounts(2, reserved=2)),
    Case("a reservation is in addition to demand", (5, "PendingJobs"), WorkerCounts(2, reserved=2), PoolDemand(1)),
    Case("never more than there are nodes", (4, "PendingJobs"), WorkerCounts(2, nodes=4), PoolDemand(5)),
    Case("nodes beyond the maximum do not count", (10, "PendingJobs"), WorkerCounts(2, nodes=40), PoolDemand(50)),
    Case("a node fewer removes no busy worker", (3, "Steady"), WorkerCounts(3, nodes=2)),
    # Growth that does not come
    Case(
        "workers that do not come are given back",
        (2, "CapacityMissing"),
        WorkerCounts(5, starting=3, overdue=3, refusal="0/3 nodes are available: 3 Insufficient cpu."),
        PoolDemand(2),
    ),
    Case(
        "the minimum stays requested",
        (4, "CapacityMissing"),
        WorkerCounts(5, starting=3, overdue=3),
        policy={"minReplicas": 4},
    ),
    Case(
        "the next attempt waits",
        (2, "RetryLater"),
        demand=PoolDemand(3),
        status={"failures": 1, "retryTime": ago(-60)},
    ),
    Case(
        "jobs that wait for the next attempt are no demand, but the set is not steady",
        (2, "RetryLater"),
        status={"failures": 1, "retryTime": ago(-60)},
    ),
    Case(
        "then it is tried again", (5, "PendingJobs"), demand=PoolDemand(3), status={"failures": 1, "retryTime": ago(1)}
    ),
    # Shrinking
    Case("idle workers go", (0, "IdleWorkers"), WorkerCounts(2, idle_seconds=(IDLE, IDLE))),
    Case("only those that were idle for long", (1, "IdleWorkers"), WorkerCounts(2, idle_seconds=(IDLE, 10.0))),
    Case("busy workers stay", (2, "Steady"), WorkerCounts(2)),
    Case(
        "workers that pending jobs will use stay",
        (1, "IdleWorkers"),
        WorkerCounts(2, idle_seconds=(IDLE, IDLE)),
        PoolDemand(0, claimed=1),
    ),
    Case(
        "the minimum stays", (1, "IdleWorkers"), WorkerCounts(2, idle_seconds=(IDLE, IDLE)), policy={"minReplicas": 1}
    ),
    Case("the warm pool stays", (1, "IdleWorkers"), WorkerCounts(2, idle_seconds=(IDLE, IDLE)), policy={"warmPool": 1}),
    Case(
        "a step limits shrinking",
        (4, "IdleWorkers"),
        WorkerCounts(5, idle_seconds=(IDLE,) * 5),
        policy={"scaleIn": {"maxStep": 1}},
    ),
    Case(
        "shrinking cools down after growing too",
        (2, "CoolingDown"),
        WorkerCounts(2, idle_seconds=(IDLE,)),
        policy={"scaleIn": {"cooldown": "10m"}},
        status={"lastScaleOutTime": ago(300)},
    ),
    Case(
        "whole blocks are removed",
        (4, "IdleWorkers"),
        WorkerCounts(8, idle_seconds=(IDLE,) * 6),
        policy={"blockSize": 4},
    ),
    Case("a lower maximum removes idle workers only", (12, "Maximum"), WorkerCounts(14, idle_seconds=(1.0, 1.0))),
    Case("busy workers beyond the maximum stay", (14, "Steady"), WorkerCounts(14)),
    Case(
        "no shrinking while a new worker is needed",
        (3, "PendingJobs"),
        WorkerCounts(2, idle_seconds=(IDLE,)),
        PoolDemand(1),
    ),
    # Not knowing
    Case("an unknown Slurm changes nothing", (2, "SlurmUnknown"), WorkerCounts(2, idle_seconds=(IDLE,)), None),
    Case("an unknown Slurm gives nothing back", (5, "SlurmUnknown"), WorkerCounts(5, starting=5, overdue=5), None),
    Case("one writer", (2, "TwoWriters"), demand=PoolDemand(3), other="a HorizontalPodAutoscaler"),
    # Clocks
    Case(
        "a clock that was set back does not block for ever",
        (3, "PendingJobs"),
        demand=PoolDemand(1),
        policy={"scaleOut": {"cooldown": "1m"}},
        status={"lastScaleOutTime": ago(-86400), "retryTime": ago(-86400)},
    ),
    Case(
        "a clock that was set back uses up no budget",
        (3, "PendingJobs"),
        demand=PoolDemand(1),
        policy={"workerHoursPerDay": 1},
        status={"usedDay": "2026-11-16", "usedSeconds": 0, "usedSince": ago(-7200)},
    ),
    Case(
        "a clock that was set forward ends a wait, and nothing else",
        (3, "PendingJobs"),
        demand=PoolDemand(1),
        policy={"scaleOut": {"cooldown": "1m"}},
        status={"lastScaleOutTime": ago(86400), "retryTime": ago(86400), "failures": 3},
    ),
    Case(
        "a clock that was set back keeps the cool-down of shrinking from blocking for ever",
        (1, "IdleWorkers"),
        WorkerCounts(2, idle_seconds=(IDLE,)),
        policy={"scaleIn": {"cooldown": "10m"}},
        status={"lastScaleInTime": ago(-86400)},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.requirement)
def test_requirement(case: Case) -> None:
    status = msgspec.convert(dict(case.status), AutoscalingStatus)
    decision = decide(policy(**case.policy), case.workers, case.demand, status, NOW, other_writer=case.other)
    assert (decision.replicas, decision.reason.value) == case.expected
    assert decision.message


def test_the_message_has_the_words_of_the_cluster() -> None:
    words = "exceeded quota: workers, requested: cpu=64"
    workers = WorkerCounts(1, starting=1, overdue=1, refusal=words)
    assert words in decide(policy(), workers, PoolDemand(), AutoscalingStatus(), NOW).message


def test_every_failure_doubles_the_wait() -> None:
    status, waits = AutoscalingStatus(), []
    for _ in range(9):
        workers = WorkerCounts(1, starting=1, overdue=1)
        decision = decide(policy(), workers, PoolDemand(), status, NOW)
        status = next_status(policy(), status, workers, decision, NOW)
        waits.append(status.retry_time)
    assert waits[:3] == [ago(-60), ago(-120), ago(-240)]
    assert waits[-1] == ago(-3600)
    assert status.failures == 9


def test_a_success_and_a_user_forget_failures() -> None:
    failed = AutoscalingStatus(
        failures=3, retry_time=ago(-60), last_scale_in_time=ago(50), last_scale_out_time=ago(100)
    )
    steady = decide(policy(), WorkerCounts(2), PoolDemand(), failed, NOW)
    assert next_status(policy(), failed, WorkerCounts(2), steady, NOW).failures == 3
    grown = msgspec.structs.replace(failed, last_scale_out_time=ago(10))
    assert next_status(policy(), grown, WorkerCounts(2, starting=1), steady, NOW).failures == 3
    assert next_status(policy(), grown, WorkerCounts(2), steady, NOW).failures == 0
    assert with_retry(failed, "now").failures == 0
    assert with_retry(with_retry(failed, "now"), "now") == with_retry(failed, "now")


def test_a_change_is_recorded_and_a_dry_run_is_not() -> None:
    for mode, recorded in (("Active", 1), ("DryRun", 0)):
        chosen = policy(mode=mode)
        decision = decide(chosen, WorkerCounts(0), PoolDemand(2), AutoscalingStatus(), NOW)
        status = next_status(chosen, AutoscalingStatus(), WorkerCounts(0), decision, NOW)
        assert (status.next_replicas, len(status.decisions)) == (2, recorded)
        assert status.replicas == (2 if recorded else None)


def test_the_status_keeps_the_last_changes_and_the_hours_of_the_day() -> None:
    status, replicas, now = AutoscalingStatus(), 0, NOW
    for _ in range(MAX_RECORDS + 5):
        now += timedelta(minutes=1)
        demand = PoolDemand(1) if replicas == 0 else PoolDemand()
        workers = WorkerCounts(replicas, idle_seconds=(IDLE,) * replicas)
        decision = decide(policy(), workers, demand, status, now)
        status = next_status(policy(), status, workers, decision, now)
        replicas = decision.replicas
    assert len(status.decisions) == MAX_RECORDS
    assert status.decisions[0].time > status.decisions[-1].time
    assert status.used_seconds == 12 * 60


# Laws ----------------------------------------------------------------------------------------------------------------

situations = st.tuples(
    st.builds(
        lambda replicas, starting, idle, late: WorkerCounts(
            replicas,
            min(starting, replicas),
            min(late, starting, replicas),
            tuple(idle[: replicas - min(starting, replicas)]),
        ),
        st.integers(0, 20),
        st.integers(0, 5),
        st.lists(st.floats(0, 1000), max_size=20),
        st.sampled_from([0, 0, 1, 5]),
    ),
    st.builds(PoolDemand, st.integers(0, 30), st.integers(0, 8)),
    st.builds(
        lambda low, high, warm, block, out, step: policy(
            minReplicas=min(low, high),
            maxReplicas=high,
            warmPool=warm,
            blockSize=block,
            scaleOut={"maxStep": out},
            scaleIn={"maxStep": step},
        ),
        st.integers(0, 5),
        st.integers(0, 20),
        *(st.integers(low, 3 + low) for low in (0, 1, 0, 0)),
    ),
)


def choose(situation: tuple[WorkerCounts, PoolDemand, Autoscaling]) -> ScalingDecision:
    workers, demand, chosen = situation
    return decide(chosen, workers, demand, AutoscalingStatus(), NOW)


@given(situations)
def test_a_decision_never_removes_a_worker_that_is_not_idle(
    situation: tuple[WorkerCounts, PoolDemand, Autoscaling],
) -> None:
    workers, _, _ = situation
    removed = workers.replicas - choose(situation).replicas
    assert removed <= (workers.overdue or len(workers.idle_seconds))


@given(situations)
def test_a_decision_grows_within_the_maximum_and_shrinks_within_the_minimum(
    situation: tuple[WorkerCounts, PoolDemand, Autoscaling],
) -> None:
    workers, _, chosen = situation
    after = choose(situation).replicas
    assert after <= max(workers.replicas, chosen.max_replicas)
    assert after >= min(workers.replicas, chosen.min_replicas)


@given(situations)
def test_a_decision_without_demand_does_not_flap(situation: tuple[WorkerCounts, PoolDemand, Autoscaling]) -> None:
    """After the change that a decision asks for, the next decision does not ask for the opposite."""
    workers, demand, chosen = situation
    after = choose(situation).replicas
    if after <= workers.replicas:
        return
    grown = WorkerCounts(after, workers.starting + after - workers.replicas, 0, workers.idle_seconds)
    again = decide(chosen, grown, PoolDemand(0, demand.claimed + demand.new_workers), AutoscalingStatus(), NOW)
    assert again.replicas >= after or workers.idle_seconds or workers.overdue


@pytest.mark.parametrize(("needed", "replicas", "expected"), [(3, 5, 0), (3, 4, 1), (3, 2, 3), (0, 2, 0), (3, 1, 3)])
def test_workers_that_a_decision_does_not_add_are_not_granted(needed: int, replicas: int, expected: int) -> None:
    decision = ScalingDecision(replicas, ScalingReason.MAXIMUM, "")
    assert workers_not_granted(WorkerCounts(2), PoolDemand(needed), decision) == expected


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 worker has been idle for 5m, and no pending job needs it"), (2, "2 workers have been")]
)
def test_a_decision_speaks_of_one_worker_in_the_singular(count: int, words: str) -> None:
    idle = decide(policy(), WorkerCounts(2, idle_seconds=(IDLE,) * count), PoolDemand(), AutoscalingStatus(), NOW)
    assert idle.message.startswith(words)
    grown = decide(policy(), WorkerCounts(2), PoolDemand(count, job=7), AutoscalingStatus(), NOW)
    assert f"need {count} more worker{'s' if count > 1 else ''}, first of all job 7" in grown.message


@pytest.mark.parametrize(("mode", "kept"), [("External", 1), ("Active", 0), ("DryRun", 0)])
def test_only_what_another_autoscaler_reads_makes_each_change_of_the_queue_a_write(mode: str, kept: int) -> None:
    chosen, workers = policy(mode=mode), WorkerCounts(2)
    decision = decide(chosen, workers, PoolDemand(), AutoscalingStatus(), NOW)
    pending = [PendingPartition("burst", 3, 1)]
    status = next_status(chosen, AutoscalingStatus(), workers, decision, NOW, partitions=pending)
    assert len(status.partitions) == kept


def test_a_number_that_no_autoscaler_sets_is_reported_with_its_age() -> None:
    chosen, status = policy(mode="External"), AutoscalingStatus()
    ages = []
    for minutes, needed in ((0, 1), (1, 1), (3, 2), (4, 0), (5, 1)):
        now = NOW + timedelta(minutes=minutes)
        decision = decide(chosen, WorkerCounts(2), PoolDemand(needed), status, now)
        status = next_status(chosen, status, WorkerCounts(2), decision, now)
        ages.append(unmet_seconds(status, now))
    assert ages == [0, 60, 180, None, 0]
    active = next_status(policy(), status, WorkerCounts(2), decision, NOW)
    assert unmet_seconds(active, NOW) is None
