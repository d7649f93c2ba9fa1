# SPDX-License-Identifier: Apache-2.0
"""The connections to Slurm clusters."""

from slinky.kube.types import Key
from slinky.observe import ManualClock
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Change, ObjectKind

KEY = Key("ns", "slurm")
URL = "http://127.0.0.1:1"


async def test_the_time_without_interruption_is_measured_with_the_given_clock() -> None:
    clock, changes = ManualClock(), list[Change]()
    clusters = Clusters(clock)
    clusters.listen(lambda key, change: changes.append(change))
    await clusters.connect(KEY, URL, b"k" * 32)
    await clock.advance(40)
    assert clusters.snapshot(KEY).reachable_seconds == 40
    clusters._on_change(KEY, Change(ObjectKind.NODE, "gpu-0", None, None))
    await clock.advance(5)
    assert clusters.snapshot(KEY).removed_seconds == {"gpu-0": 5}
    clusters._on_change(KEY, Change(ObjectKind.MIRROR, "", None, None))
    assert clusters.snapshot(KEY)[-2:] == (0, {}), "after an interruption everything is measured anew"
    assert [change.kind for change in changes] == [ObjectKind.NODE, ObjectKind.MIRROR]
    await clusters.disconnect(KEY)


async def test_the_time_of_the_last_change_is_that_of_any_object() -> None:
    clock = ManualClock()
    clusters = Clusters(clock)
    assert clusters.changed_at(KEY) == 0.0
    await clusters.connect(KEY, URL, b"k" * 32)
    for kind in (ObjectKind.JOB, ObjectKind.NODE, ObjectKind.PARTITION, ObjectKind.MIRROR):
        await clock.advance(7)
        assert clusters.changed_at(KEY) < clock.monotonic()
        clusters._on_change(KEY, Change(kind, "1", None, None))
        assert clusters.changed_at(KEY) == clock.monotonic()
    await clusters.disconnect(KEY)


async def test_a_new_key_keeps_the_connection_and_a_new_address_replaces_it() -> None:
    clusters = Clusters(ManualClock())
    assert clusters.snapshot(KEY) == SlurmSnapshot()
    await clusters.connect(KEY, URL, b"k" * 32)
    client = clusters.client(KEY)
    await clusters.connect(KEY, URL, b"n" * 32)
    assert clusters.client(KEY) is client
    await clusters.connect(KEY, "http://127.0.0.1:2", b"n" * 32)
    assert clusters.client(KEY) is not client
    await clusters.disconnect(KEY)
    assert clusters.client(KEY) is None
    assert not await clusters.refresh(KEY)
