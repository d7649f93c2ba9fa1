# SPDX-License-Identifier: Apache-2.0
"""What a unit does about jobs whose pods are not seen as its own."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.bridge.build import Sight, pod, record

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.lifecycle.reconciler import WorkloadReconciler
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import grouping, identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Cache, by_label
from slinky.observe import ManualClock
from slinky.slurm import JobRequest, SlurmClient

GANG = Workload("ns", "Job", "j")
A, B = (pod(name, labels={names.JOB_NAME: "j"}) for name in "ab")


def ledger() -> JobRegistry:
    """One live job, made for exactly `a` and `b`."""
    me = BridgeIdentity("c", "b")
    (signed,) = identity.sign([JobRequest()], [[A, B]], me, str(GANG))
    known = record("7", "RUNNING", hosts=("n1",))
    assert known.detail is not None
    detail = msgspec.structs.replace(known.detail, admin_comment=signed.admin_comment)
    mirror: Any = Sight(msgspec.structs.replace(known, detail=detail))
    found = JobRegistry(cast("SlurmClient", None), mirror, me)
    found.track_labelled("7", GANG)
    return found


@pytest.mark.parametrize(
    ("left", "cancelled"),
    [
        ([A, B], []),
        ([A], ["7"]),
        ([], ["7"]),
    ],
    ids=["both are there", "one is gone", "nobody"],
)
async def test_a_job_whose_pods_have_not_been_seen_with_it_is_kept_for_them(
    left: list[WorkloadPod], cancelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch job is gone, so that its pods are not known as a gang, and the binding with the job's name not seen."""
    pods: Cache[WorkloadPod] = Cache(
        OUR_PODS, indexes={"group": grouping.group_keys_of, "job": by_label(names.JOB_LABEL)}
    )
    for found in left:
        pods.put(found)
    books, ended, woken = ledger(), list[str](), asyncio.Queue[Workload]()
    monkeypatch.setattr("slinky.bridge.lifecycle.reconciler.UNSEEN", 0.0)

    async def end(job: str, *_: object) -> None:
        ended.append(job)

    def unit_of(found: WorkloadPod) -> Workload:
        return grouping.workload_of(found, lambda _kind, _key: None, books.resolve_workload)

    stock: Any = SimpleNamespace(
        pods=pods,
        workload_of=unit_of,
        workloads_of=lambda found: {unit_of(each) for each in found},
        pods_of=lambda unit: [found for found in pods if unit_of(found) == unit],
        is_reachable=lambda _: True,
    )
    unused: Any = SimpleNamespace(place=None)
    releaser: Any = SimpleNamespace(end=end)
    units = WorkloadReconciler(
        BridgeSettings(), stock, books, unused, unused, releaser, *[unused] * 6, ManualClock(), woken.put_nowait
    )  # type: ignore[call-arg]
    await units.reconcile(GANG)
    assert ended == cancelled
    if not cancelled:
        async with asyncio.timeout(5):
            assert await woken.get() == GANG  # and is looked at again, in case that nobody ever comes
