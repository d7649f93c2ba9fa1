# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.operator.samples import REVISION, host, node_set, pod, trusted_snapshot, worker_of

from slinky.api.names import metadata
from slinky.operator.nodeset.decisions.ordering import removal_order
from slinky.operator.nodeset.decisions.scaling import surplus_workers, target_replicas, vacant_slots
from slinky.operator.nodeset.workers import Worker


def workers(*names: str) -> list[Worker]:
    return [worker_of(pod(name)) for name in names]


VACANT: list[tuple[str, list[str], int, list[int | None]]] = [
    ("none there", [], 3, [0, 1, 2]),
    ("gaps are filled first", ["gpu-1", "gpu-3"], 4, [0, 2]),
    ("enough there", ["gpu-0", "gpu-7"], 2, []),
    ("too many there", ["gpu-0", "gpu-1"], 1, []),
]


@pytest.mark.parametrize(("law", "names", "want", "ordinals"), VACANT, ids=[case[0] for case in VACANT])
def test_the_lowest_free_ordinals_are_filled(law: str, names: list[str], want: int, ordinals: list[int | None]) -> None:
    assert [slot.ordinal for slot in vacant_slots(workers(*names), want, {})] == ordinals


def test_a_slot_is_not_filled_beside_a_worker_that_is_still_leaving() -> None:
    leaving = [worker_of(pod("gpu-0", deleting=True)), worker_of(pod("gpu-1", pod_condemned="update x"))]
    assert list(vacant_slots(leaving, 2, {})) == []


def test_one_that_was_scaled_away_does_not_keep_a_set_from_growing_again() -> None:
    """Its job may take days, and until then it takes no other; its own name is free when it is gone."""
    busy = [worker_of(pod("gpu-0", pod_condemned="scale-in x"))]
    assert list(vacant_slots(busy, 0, {})) == []
    assert [slot.ordinal for slot in vacant_slots(busy, 1, {})] == [1]
    assert [slot.ordinal for slot in vacant_slots([*busy, *workers("gpu-1")], 2, {})] == [2]
    assert surplus_workers([*busy, *workers("gpu-1")], 1) == []


ORDER = [
    ("not placed", pod("a", node="", ready=None, phase="Pending"), pod("b")),
    ("not ready", pod("a", ready=None), pod("b")),
    ("lower cost", pod("a", pod_deletion_cost="-5"), pod("b", pod_deletion_cost="0")),
    (
        "earlier end of jobs",
        pod("a", pod_deadline="2026-01-01T00:00:00Z"),
        pod("b", pod_deadline="2027-01-01T00:00:00Z"),
    ),
    ("asked to drain", pod("a", pod_cordon="true"), pod("b")),
    ("higher ordinal", pod("gpu-10"), pod("gpu-9")),
    ("ready more recently", pod("a", ready=10), pod("b", ready=100)),
    ("made more recently", pod("a", age=10), pod("b", age=100)),
]


@pytest.mark.parametrize(("law", "first", "second"), ORDER, ids=[case[0] for case in ORDER])
def test_the_worker_whose_removal_disturbs_least_is_removed_first(law: str, first: object, second: object) -> None:
    gpu_set = [worker_of(second), worker_of(first)]  # type: ignore[arg-type]
    assert removal_order(gpu_set)[0].pod == first


def test_an_idle_worker_goes_before_a_busy_one_and_before_one_that_is_not_known() -> None:
    slurm = trusted_snapshot(host("gpu-0", "MIXED"), host("gpu-1", "IDLE"))
    ordered = removal_order([worker_of(pod(name), slurm) for name in ("gpu-0", "gpu-1", "gpu-2")])
    assert ordered[0].meta.name == "gpu-1"


def test_a_new_worker_that_has_a_job_before_it_is_called_ready_stays() -> None:
    slurm = trusted_snapshot(host("gpu-0", "IDLE"), host("gpu-1", "IDLE"), host("gpu-2", "MIXED"))
    ordered = removal_order(
        [worker_of(pod("gpu-0"), slurm), worker_of(pod("gpu-1"), slurm), worker_of(pod("gpu-2", ready=None), slurm)]
    )
    assert [worker.meta.name for worker in ordered] == ["gpu-1", "gpu-0", "gpu-2"]


def test_what_was_condemned_stays_condemned() -> None:
    chosen = worker_of(pod("gpu-0", pod_condemned="scale-in x"))
    cheaper = worker_of(pod("gpu-1", ready=None))
    assert surplus_workers([chosen, cheaper], 1) == []


def test_one_that_is_being_replaced_is_the_first_to_be_too_many() -> None:
    replaced, idle = worker_of(pod("gpu-0", pod_condemned="update x")), worker_of(pod("gpu-1", ready=None))
    assert surplus_workers([idle, replaced], 1) == [replaced]


def test_an_update_may_surge_only_while_something_is_old() -> None:
    gpu_set = node_set(replicas=4, updateStrategy={"rollingUpdate": {"maxSurge": "50%"}})
    new, old = worker_of(pod("gpu-0")), worker_of(pod("gpu-1", revision="rev1"))
    assert target_replicas(gpu_set, [new], REVISION) == 4
    assert target_replicas(gpu_set, [new, old], REVISION) == 6


def test_a_canary_does_not_surge_for_those_it_leaves_alone_and_a_pause_ends_the_surge() -> None:
    def surging(**rolling: object) -> int:
        gpu_set = node_set(replicas=4, updateStrategy={"rollingUpdate": {"maxSurge": 1, **rolling}})
        return target_replicas(gpu_set, [worker_of(pod("gpu-0", revision="rev1")), worker_of(pod("gpu-3"))], REVISION)

    assert surging() == 5
    assert surging(partition=1) == 4
    assert surging(paused=True) == 4


def test_a_halted_update_keeps_the_worker_that_shows_why() -> None:
    rolling = {"maxSurge": 1, "maxFailures": 1, "progressDeadlineSeconds": 60}
    gpu_set = node_set(replicas=1, updateStrategy={"rollingUpdate": rolling})
    ordered = [worker_of(pod("gpu-0", revision="rev1")), worker_of(pod("gpu-1", ready=None, age=61))]
    assert target_replicas(gpu_set, ordered, REVISION) == 2


def test_a_pinned_ordinal_returns_to_its_node() -> None:
    assert [slot.node for slot in vacant_slots([], 2, {"0": "node7"})] == ["node7", ""]


def test_a_cost_that_is_no_number_is_zero() -> None:
    odd, cheap = worker_of(pod("a", pod_deletion_cost="?")), worker_of(pod("b", pod_deletion_cost="-1"))
    assert removal_order([odd, cheap])[0] is cheap
    assert metadata.POD_DELETION_COST in odd.meta.annotations
