# SPDX-License-Identifier: Apache-2.0
"""When a host is drained because of pods that do not stop, and who ends the drain."""

from typing import Any

import pytest
from tests.unit.bridge.build import NOW, node, pod

from slinky.bridge import names
from slinky.bridge.nodes import actions, plan
from slinky.bridge.nodes.description import NodeFacts
from slinky.bridge.nodes.drains import LIVE_JOB_RETRY, StoppingPod, is_own_drain, stopping_pods
from slinky.bridge.views import WorkloadPod
from slinky.slurm import Host, Presence

PATIENCE = 180.0
RECENT, LONG_AGO = "2026-06-01T11:59:00Z", "2026-06-01T11:50:00Z"


def stopping(*pods: WorkloadPod, live: tuple[str, ...] = ()) -> tuple[tuple[StoppingPod, ...], float | None]:
    return stopping_pods(pods, lambda job: job in live, NOW, PATIENCE)


@pytest.mark.parametrize(
    "subject",
    [
        pod(job="7", node="n1"),
        pod(job="7", deleted=LONG_AGO),
        pod(job="7", node="n1", deleted=LONG_AGO, phase="Failed"),
        pod(node="n1", deleted=LONG_AGO),
    ],
    ids=["not deleted", "without node", "containers ended", "without job"],
)
def test_other_pods_do_not_stop(subject: WorkloadPod) -> None:
    assert stopping(subject) == ((), None)


def test_a_pod_of_a_live_job_is_checked_again_because_slurm_still_keeps_its_host() -> None:
    assert stopping(pod(job="7", node="n1", deleted=LONG_AGO), live=("7",)) == ((), LIVE_JOB_RETRY)


def test_a_pod_of_an_ended_job_is_overdue_after_its_grace_period_and_the_setting() -> None:
    (recent,), again = stopping(pod(job="7", node="n1", deleted=RECENT))
    assert (recent.overdue, again) == (False, 120.0)
    (old,), again = stopping(pod(job="7", node="n1", deleted=LONG_AGO))
    assert (old.overdue, again) == (True, None)


def drain(host: Host, *pods: StoppingPod, subject: Any = None, scheduler: str = names.SCHEDULER) -> list[str]:
    """The reasons of drains, and "undrain" for the end of one."""
    subject = subject or node()
    facts = NodeFacts("n1", subject, host, Presence.PRESENT, "slurm-bridge c/b", stopping=pods, scheduler=scheduler)
    return [
        action.reason if isinstance(action, actions.DrainHost) else "undrain"
        for action in plan.plan(facts)
        if isinstance(action, actions.DrainHost | actions.UndrainHost)
    ]


STUCK = StoppingPod(LONG_AGO, "ns/p", "7", overdue=True)
LEAVING = StoppingPod(RECENT, "ns/q", "8")
STUCK_REASON = f"slurm-bridge: pod ns/p of job 7 has not stopped since {LONG_AGO} [{names.SCHEDULER}]"
LEAVING_REASON = f"slurm-bridge: pods of ended jobs are still stopping [{names.SCHEDULER}]"


def hybrid(*words: str, reason: str = "") -> Host:
    return Host("n1", words=words or ("IDLE",), cpus=4, real_memory=8192, reason=reason)


def external(*words: str, reason: str = "") -> Host:
    return Host("n1", words=(*(words or ("IDLE",)), "EXTERNAL"), cpus=4, real_memory=8192, reason=reason)


@pytest.mark.parametrize("host", [hybrid(), external()], ids=["hybrid", "external"])
def test_a_host_is_drained_with_pod_job_and_time_if_a_pod_does_not_stop(host: Host) -> None:
    assert drain(host, STUCK) == [STUCK_REASON]


def test_only_a_host_with_a_slurmd_is_drained_while_pods_stop_in_time() -> None:
    assert drain(hybrid(), LEAVING) == [LEAVING_REASON]
    assert drain(external(), LEAVING) == []


def test_the_reason_is_updated_once_a_pod_is_overdue_and_the_drain_ends_with_the_pod() -> None:
    assert drain(hybrid("IDLE", "DRAIN", reason=LEAVING_REASON), LEAVING) == []
    assert drain(hybrid("IDLE", "DRAIN", reason=LEAVING_REASON), STUCK, LEAVING) == [STUCK_REASON]
    assert drain(hybrid("IDLE", "DRAIN", reason=STUCK_REASON), STUCK) == []
    assert drain(hybrid("IDLE", "DRAIN", reason=STUCK_REASON)) == ["undrain"]


def test_a_cordon_comes_before_pods_that_stop() -> None:
    cordoned = node(unschedulable=True)
    reason = "slurm-bridge: cordoned in Kubernetes"
    assert drain(hybrid(), STUCK, subject=cordoned) == [reason]
    assert drain(hybrid("IDLE", "DRAIN", reason=reason), STUCK) == [STUCK_REASON]


def test_a_drain_by_an_administrator_or_another_bridge_is_left_alone() -> None:
    for reason in ("disk broken", LEAVING_REASON.replace(names.SCHEDULER, "other")):
        assert drain(hybrid("IDLE", "DRAIN", reason=reason), STUCK) == []
        assert drain(hybrid("IDLE", "DRAIN", reason=reason)) == []
        assert not is_own_drain(reason, names.SCHEDULER)
    assert drain(hybrid("IDLE", "DRAIN", reason="slurm-bridge: cordoned in Kubernetes")) == ["undrain"]
