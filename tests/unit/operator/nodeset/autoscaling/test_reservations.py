# SPDX-License-Identifier: Apache-2.0
"""Workers come before a reservation begins, and stay until it ends."""

import pytest
from tests.unit.operator.samples import NOW, host, node_set, pod, trusted_snapshot, worker_of

from slinky.operator.nodeset.autoscaling import pools
from slinky.operator.nodeset.autoscaling.reservations import host_ordinal, missing_workers
from slinky.operator.slurm.snapshot import reserved_hosts
from slinky.slurm import Reservation, number

POLICY = {"maxReplicas": 8, "reservationAhead": "10m"}
SOON, LATER = NOW.timestamp() + 300, NOW.timestamp() + 3600


def reservation(nodes: str, begin: float = SOON, end: float = LATER, *flags: str) -> Reservation:
    return Reservation("r", nodes, flags=flags, start_time=number(int(begin)), end_time=number(int(end)))


@pytest.mark.parametrize(
    ("reserved", "existing", "expected"),
    [
        pytest.param({}, [0], 0, id="no reservation"),
        pytest.param({"gpu-0": SOON, "gpu-1": SOON}, [], 2, id="from zero"),
        pytest.param({"gpu-1": SOON}, [], 2, id="lower ordinals are filled first"),
        pytest.param({"gpu-1": SOON}, [0], 1, id="one more"),
        pytest.param({"gpu-1": SOON}, [1], 0, id="it is there"),
        pytest.param({"gpu-0": LATER}, [], 0, id="it is not near yet"),
        pytest.param({"gpu-0": NOW.timestamp() - 60}, [], 1, id="it has begun"),
        pytest.param({"gpu-8": SOON, "gpu-0": SOON}, [], 1, id="hosts beyond the maximum"),
        pytest.param({"other-0": SOON, "gpu-x": SOON, "gpu": SOON}, [], 0, id="hosts of others"),
    ],
)
def test_workers_come_before_a_reservation_begins(
    reserved: dict[str, float], existing: list[int], expected: int
) -> None:
    workers = [worker_of(pod(f"gpu-{number}")) for number in existing]
    assert missing_workers(node_set(autoscaling=POLICY), workers, reserved, NOW) == expected


def test_workers_that_are_requested_already_are_not_requested_again() -> None:
    live = node_set(autoscaling=POLICY, replicas=1)
    assert pools.worker_counts(live, [], NOW, reserved_from={"gpu-1": SOON}).reserved == 1


def test_a_reservation_of_maintenance_or_of_the_past_reserves_nothing() -> None:
    past = reservation("gpu-9", SOON - 7200, NOW.timestamp() - 1)
    maintenance = reservation("gpu-8", SOON, LATER, "MAINT")
    items = [reservation("gpu-[0-1]"), reservation("gpu-1", LATER, LATER + 60), past, maintenance, reservation("[")]
    assert reserved_hosts(items, NOW.timestamp()) == {"gpu-0": SOON, "gpu-1": SOON}


def test_a_worker_that_is_reserved_soon_is_neither_free_nor_removed() -> None:
    slurm = trusted_snapshot(host("gpu-0", "IDLE", cpus=2), host("gpu-1", "IDLE", cpus=2))
    slurm = slurm._replace(reserved_from={"gpu-0": SOON})
    live = node_set(autoscaling=POLICY, replicas=2)
    workers = [worker_of(pod(f"gpu-{number}", ready=500), slurm, owner=live) for number in range(2)]
    assert [worker.removable for worker in workers] == [False, True]
    assert len(pools.worker_counts(live, workers, NOW).idle_seconds) == 1
    assert sum(pools.build_pool(live, workers, {}, NOW).free.values()) == 1


@pytest.mark.parametrize(
    ("prefix", "name", "ordinal"),
    [
        ("", "gpu-3", 3),
        ("", "gpu-03", None),
        ("", "gpu-", None),
        ("", "cpu-3", None),
        ("k90", "k9012", 12),
        ("k90", "k912", None),
    ],
)
def test_the_ordinal_of_a_host_is_exact(prefix: str, name: str, ordinal: int | None) -> None:
    live = node_set(template={"spec": {"hostname": prefix}}) if prefix else node_set()
    assert host_ordinal(live, name) == ordinal
