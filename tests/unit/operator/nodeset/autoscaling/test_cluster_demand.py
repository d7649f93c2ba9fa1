# SPDX-License-Identifier: Apache-2.0
"""A job that starts between two reads counts neither twice nor not at all."""

import pytest

from slinky.operator.nodeset.autoscaling.cluster_demand import is_due, recheck_after, remaining_demand
from slinky.operator.nodeset.autoscaling.decision import (
    PoolDemand,
    ScalingDecision,
    ScalingReason,
    verified_reduction,
)


@pytest.mark.parametrize(
    ("needed", "before", "replicas", "left"),
    [
        pytest.param(2, 1, 1, 2, id="nothing has changed"),
        pytest.param(2, 1, 2, 1, id="a part was added"),
        pytest.param(2, 1, 3, 0, id="all were added"),
        pytest.param(2, 1, 4, 0, id="more were added"),
        pytest.param(0, 3, 1, 0, id="removed workers do not come back"),
        pytest.param(2, 3, 1, 2, id="only the need comes back"),
    ],
)
def test_workers_are_requested_once(needed: int, before: int, replicas: int, left: int) -> None:
    assert remaining_demand(PoolDemand(needed, 5, 7), before, replicas) == PoolDemand(left, 5, 7)


@pytest.mark.parametrize(
    ("age", "follow", "due"), [(0.5, True, False), (1.5, True, True), (1.5, False, False), (11.0, False, True)]
)
def test_jobs_older_than_hosts_are_no_demand_but_do_not_stop_it_for_ever(age: float, follow: bool, due: bool) -> None:
    assert is_due(age, jobs_follow_hosts=follow) is due


@pytest.mark.parametrize(
    ("age", "outdated", "follow", "seconds"),
    [
        pytest.param(0.25, False, True, None, id="nothing has changed since"),
        pytest.param(0.25, True, True, 0.75, id="a change came too soon after the last computation"),
        pytest.param(1.5, True, True, 0.0, id="the next computation is due"),
        pytest.param(0.25, True, False, 1.0, id="jobs are older than hosts"),
    ],
)
def test_a_decision_on_an_outdated_demand_is_repeated(
    age: float, outdated: bool, follow: bool, seconds: float | None
) -> None:
    assert recheck_after(age, outdated=outdated, jobs_follow_hosts=follow) == seconds


def chosen(replicas: int, reason: ScalingReason) -> ScalingDecision:
    return ScalingDecision(replicas, reason, "")


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        pytest.param(chosen(1, ScalingReason.IDLE), chosen(1, ScalingReason.IDLE), (1, "IdleWorkers"), id="both agree"),
        pytest.param(
            chosen(2, ScalingReason.IDLE), chosen(1, ScalingReason.IDLE), (2, "IdleWorkers"), id="the fewest go"
        ),
        pytest.param(chosen(3, ScalingReason.STEADY), chosen(1, ScalingReason.IDLE), (3, "Steady"), id="a job starts"),
        pytest.param(
            chosen(5, ScalingReason.PENDING_JOBS), chosen(1, ScalingReason.IDLE), (3, "Steady"), id="a gang has started"
        ),
        pytest.param(
            chosen(1, ScalingReason.IDLE), chosen(4, ScalingReason.PENDING_JOBS), (4, "PendingJobs"), id="a new job"
        ),
    ],
)
def test_fewer_workers_need_the_consent_of_jobs_read_before_and_after_the_hosts(
    earlier: ScalingDecision, later: ScalingDecision, expected: tuple[int, str]
) -> None:
    decision = verified_reduction(3, earlier, later)
    assert (decision.replicas, decision.reason.value) == expected
