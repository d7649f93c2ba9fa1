# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.operator.samples import REVISION, UNTRUSTED, host, node_set, pod, trusted_snapshot, worker_of

from slinky.operator.nodeset.decisions.rollout import is_halted, replacement_budget, workers_to_replace
from slinky.operator.nodeset.workers import Worker


def rolling(replicas: int = 4, **strategy: Any) -> Any:
    return node_set(replicas=replicas, updateStrategy={"rollingUpdate": {"maxUnavailable": 1, **strategy}})


def old(name: str, **more: Any) -> Worker:
    return worker_of(pod(name, revision="rev1", **more))


def new(name: str, **more: Any) -> Worker:
    return worker_of(pod(name, **more))


CASES: list[tuple[str, Any, list[Worker], list[str]]] = [
    ("one at a time", rolling(), [old(f"gpu-{n}") for n in range(4)], ["gpu-3"]),
    ("a share is rounded up", rolling(maxUnavailable="26%"), [old(f"gpu-{n}") for n in range(4)], ["gpu-3", "gpu-2"]),
    ("a missing worker uses up the budget", rolling(), [old("gpu-0"), old("gpu-1"), old("gpu-2")], []),
    (
        "a broken new one uses up the budget: a bad image drains one worker and no more",
        rolling(),
        [new("gpu-0", ready=None), old("gpu-1"), old("gpu-2"), old("gpu-3")],
        [],
    ),
    (
        "a condemned one uses up the budget",
        rolling(),
        [old("gpu-0", pod_condemned="update x"), old("gpu-1"), old("gpu-2"), old("gpu-3")],
        [],
    ),
    (
        "a broken old one is replaced at once",
        rolling(),
        [old("gpu-0", ready=None), *[new(f"gpu-{n}") for n in (1, 2, 3)]],
        ["gpu-0"],
    ),
    ("nothing while paused", rolling(paused=True), [old(f"gpu-{n}") for n in range(4)], []),
    (
        "a canary updates the upper ordinals only",
        rolling(partition=3, maxUnavailable=4),
        [old(f"gpu-{n}") for n in range(4)],
        ["gpu-3"],
    ),
    ("nothing when all is new", rolling(), [new(f"gpu-{n}") for n in range(4)], []),
    ("OnDelete leaves it to users", node_set(updateStrategy={"type": "OnDelete"}), [old("gpu-0", ready=None)], []),
]


@pytest.mark.parametrize(("law", "gpu_set", "workers", "names"), CASES, ids=[case[0] for case in CASES])
def test_which_workers_are_replaced_next(law: str, gpu_set: Any, workers: list[Worker], names: list[str]) -> None:
    assert [worker.meta.name for worker in workers_to_replace(gpu_set, workers, REVISION)] == names


def test_with_surge_nothing_goes_before_something_came() -> None:
    gpu_set = rolling(4, maxUnavailable=0, maxSurge=1)
    four = [old(f"gpu-{n}") for n in range(4)]
    assert workers_to_replace(gpu_set, four, REVISION) == []
    assert len(workers_to_replace(gpu_set, [*four, new("gpu-4")], REVISION)) == 1


def test_an_update_halts_when_too_many_new_ones_fail() -> None:
    gpu_set = rolling(4, maxUnavailable=4, maxFailures=1, progressDeadlineSeconds=60)
    late, young = new("gpu-0", ready=None, age=61), new("gpu-1", ready=None, age=59)
    assert is_halted(gpu_set, [late], REVISION)
    assert not is_halted(gpu_set, [young], REVISION)
    assert workers_to_replace(gpu_set, [late, old("gpu-2")], REVISION) == []


def test_a_worker_counts_only_after_it_was_ready_for_long_enough() -> None:
    gpu_set = node_set(replicas=1, minReadySeconds=30, updateStrategy={"rollingUpdate": {"maxUnavailable": 1}})
    assert replacement_budget(gpu_set, [new("gpu-0", ready=10)]) == 0
    assert replacement_budget(gpu_set, [new("gpu-0", ready=31)]) == 1


KEPT_OUT = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
TOO_LARGE = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("shares", "why", "condemned", "names"),
    [
        (True, KEPT_OUT, "", ["gpu-1"]),
        (True, TOO_LARGE, "", []),
        (True, KEPT_OUT, "update x", []),
        (False, KEPT_OUT, "", []),
    ],
)
def test_old_workers_that_keep_new_ones_off_their_nodes_are_replaced_one_at_a_time(
    shares: bool, why: str, condemned: str, names: list[str]
) -> None:
    gpu_set = node_set(replicas=4, oversubscribeNode=shares, updateStrategy={"rollingUpdate": {"maxUnavailable": 1}})
    first = old("gpu-0", pod_condemned=condemned) if condemned else old("gpu-0")
    workers = [first, old("gpu-1"), *(new(f"gpu-{n}", ready=None, unscheduled=why) for n in (2, 3))]
    assert [worker.meta.name for worker in workers_to_replace(gpu_set, workers, REVISION)] == names


def test_a_scheduled_update_waits_for_its_reservation() -> None:
    gpu_set = node_set(
        updateStrategy={"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": "2026-11-16T12:00:00Z"}}
    )
    reserved = host("gpu-0", "IDLE+MAINTENANCE", reservation="SlurmOperatorMaint-gpu")
    other = host("gpu-0", "IDLE+MAINTENANCE", reservation="theirs")
    worker_pod = pod("gpu-0", revision="rev1")
    assert len(workers_to_replace(gpu_set, [worker_of(worker_pod, trusted_snapshot(reserved))], REVISION)) == 1
    assert workers_to_replace(gpu_set, [worker_of(worker_pod, trusted_snapshot(other))], REVISION) == []
    assert workers_to_replace(gpu_set, [worker_of(worker_pod, UNTRUSTED)], REVISION) == []
