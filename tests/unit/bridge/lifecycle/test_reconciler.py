# SPDX-License-Identifier: Apache-2.0
"""Jobs whose pods are not observed as members of their workload yet."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import FakeMirror, pod, record

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.lifecycle.reconciler import UNLABELLED_RETRY, WorkloadReconciler
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import grouping, identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Cache, by_label
from slinky.observe import ManualClock
from slinky.slurm import JobRequest

GANG = Workload("ns", "Job", "j")
A, B = (pod(name, labels={names.JOB_NAME: "j"}) for name in "ab")


def build_registry() -> JobRegistry:
    """A registry with one live job, submitted for exactly the pods `a` and `b`."""
    bridge = BridgeIdentity("c", "b")
    (signed,) = identity.sign([JobRequest()], [[A, B]], bridge, str(GANG))
    job = record("7", "RUNNING", hosts=("n1",))
    assert job.detail is not None
    detail = msgspec.structs.replace(job.detail, admin_comment=signed.admin_comment)
    mirror: Any = FakeMirror(msgspec.structs.replace(job, detail=detail))
    registry = JobRegistry(mirror, bridge)
    registry.track_labelled("7", GANG)
    return registry


@pytest.mark.parametrize(
    ("existing", "cancelled"),
    [
        ([A, B], []),
        ([A], ["7"]),
        ([], ["7"]),
    ],
    ids=["both pods exist", "one pod is gone", "both pods are gone"],
)
async def test_a_job_is_kept_for_its_pods_until_they_are_observed_with_its_label(
    existing: list[WorkloadPod], cancelled: list[str]
) -> None:
    """The batch job is deleted, so its pods form no gang, and the binding with the job label is not observed yet."""
    pods: Cache[WorkloadPod] = Cache(
        OUR_PODS, indexes={"group": grouping.group_keys_of, "job": by_label(names.JOB_LABEL)}
    )
    for member in existing:
        pods.put(member)
    registry, ended, enqueued, clock = build_registry(), list[str](), list[Workload](), ManualClock()

    async def end_job(job: str, *_: object) -> None:
        ended.append(job)

    def workload_of(member: WorkloadPod) -> Workload:
        return grouping.workload_of(member, lambda _kind, _key: None, registry.resolve_workload)

    cluster: Any = SimpleNamespace(
        pods=pods,
        workload_of=workload_of,
        workloads_of=lambda members: set(map(workload_of, members)),
        pods_of=lambda workload: [member for member in pods if workload_of(member) == workload],
        is_reachable=lambda _: True,
    )
    unused: Any = SimpleNamespace(describe=None)
    releaser: Any = SimpleNamespace(end_job=end_job)
    reconciler = WorkloadReconciler(
        BridgeSettings(), cluster, registry, unused, unused, releaser, *[unused] * 6, clock, enqueued.append
    )  # type: ignore[call-arg]
    await reconciler.reconcile(GANG)
    assert ended == cancelled
    await clock.advance(UNLABELLED_RETRY)
    assert enqueued == ([] if cancelled else [GANG])  # in case the label is never observed
