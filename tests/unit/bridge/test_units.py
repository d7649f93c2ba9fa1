# SPDX-License-Identifier: Apache-2.0
"""What a unit does about jobs whose pods are not seen as its own."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from slinky.bridge import names, workload
from slinky.bridge.config import Settings
from slinky.bridge.units import Units
from slinky.bridge.views import OUR_PODS, Pod
from slinky.bridge.workload import Unit
from slinky.kube import Cache, by_label
from slinky.observe import ManualClock

from .build import pod

GANG = Unit("ns", "Job", "j")


class Books:
    """A ledger with one live job, made for exactly `a` and `b`."""

    def jobs_of(self, unit: Unit) -> list[Any]:
        return [SimpleNamespace(job="7", members="ab")] if unit == GANG else []

    def adopted(self, unit: Unit, pods: list[Pod]) -> dict[str, str]:
        whole = unit == GANG and {found.metadata.uid for found in pods} == {"uid-a", "uid-b"}
        return {found.metadata.uid: "7" for found in pods} if whole else {}

    def unit_of(self, job: str) -> Unit | None:
        return GANG if job == "7" else None

    def ours(self, job: str) -> bool:
        return True

    live = ours


@pytest.mark.parametrize(
    ("left", "cancelled"),
    [
        ([pod("a", labels={names.JOB_NAME: "j"}), pod("b", labels={names.JOB_NAME: "j"})], []),
        ([pod("a", labels={names.JOB_NAME: "j"})], ["7"]),
        ([], ["7"]),
    ],
    ids=["both are there", "one is gone", "nobody"],
)
async def test_a_job_whose_pods_have_not_been_seen_with_it_is_kept_for_them(
    left: list[Pod], cancelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch job is gone, so that its pods are not known as a gang, and the binding with the job's name not seen."""
    pods: Cache[Pod] = Cache(OUR_PODS, indexes={"group": workload.groups_of, "job": by_label(names.JOB_LABEL)})
    for found in left:
        pods.put(found)
    books, ended, woken = Books(), [], asyncio.Queue[Unit]()
    monkeypatch.setattr("slinky.bridge.units.UNSEEN", 0.0)

    async def end(job: str, *_: object) -> None:
        ended.append(job)

    def unit_of(found: Pod) -> Unit:
        return workload.unit_of(found, lambda _kind, _key: None, books.unit_of)

    stock: Any = SimpleNamespace(
        pods=pods,
        unit_of=unit_of,
        units_of=lambda found: {unit_of(each) for each in found},
        members=lambda unit: [found for found in pods if unit_of(found) == unit],
        reachable=lambda _: True,
    )
    unused: Any = SimpleNamespace(place=None)
    releaser: Any = SimpleNamespace(end=end)
    units = Units(Settings(), stock, books, unused, unused, releaser, *[unused] * 6, ManualClock(), woken.put_nowait)  # type: ignore[call-arg,arg-type]
    await units.reconcile(GANG)
    assert ended == cancelled
    if not cancelled:
        async with asyncio.timeout(5):
            assert await woken.get() == GANG  # and is looked at again, in case that nobody ever comes
