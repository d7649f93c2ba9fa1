# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.operator.samples import UNTRUSTED, host, node, node_set, pod, trusted_snapshot, worker_of

from slinky.api.names import metadata
from slinky.kube.types import Condition
from slinky.operator.nodeset.actions import UpdateHost
from slinky.operator.nodeset.decisions import drains
from slinky.operator.nodeset.decisions.host_metadata import pod_updates
from slinky.operator.nodeset.objects import TERMINATING_REASON
from slinky.operator.nodeset.workers import KeptDrain, Worker
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import number

OURS = f"{metadata.REASON_PREFIX}Pod ns/gpu-0 was cordoned"

PERMITTED: list[tuple[str, dict[str, Any], SlurmSnapshot, bool]] = [
    ("drained and idle", {}, trusted_snapshot(host(state="IDLE+DRAIN")), True),
    ("drained and down", {}, trusted_snapshot(host(state="DOWN+DRAIN")), True),
    ("drained by an administrator", {}, trusted_snapshot(host(state="IDLE+DRAIN", reason="disk")), True),
    ("draining with a job", {}, trusted_snapshot(host(state="MIXED+DRAIN")), False),
    ("drain with a job just leaving", {}, trusted_snapshot(host(state="IDLE+DRAIN+COMPLETING")), False),
    ("drain just being lifted", {}, trusted_snapshot(host(state="IDLE+DRAIN+UNDRAIN")), False),
    ("idle and not drained", {}, trusted_snapshot(host(state="IDLE")), False),
    ("down and not drained", {}, trusted_snapshot(host(state="DOWN")), False),
    ("a state we do not know", {}, trusted_snapshot(host(state="QUANTUM+DRAIN")), False),
    ("drained in a stale snapshot", {}, trusted_snapshot(host(state="IDLE+DRAIN"), trusted=False), False),
    ("nothing known", {}, UNTRUSTED, False),
    ("no connection at all", {}, SlurmSnapshot(), False),
    ("nothing known, not ready", {"ready": None}, UNTRUSTED, False),
    ("absent and silent", {"ready": None}, trusted_snapshot(host("other")), True),
    ("absent, but slurmd is well and young", {"ready": 5}, trusted_snapshot(host("other")), False),
    ("absent for long although slurmd is well", {"ready": 600}, trusted_snapshot(host("other")), True),
    (
        "absent, but Slurm was not reachable before",
        {"ready": 600},
        trusted_snapshot(host("other"))._replace(reachable_seconds=5),
        False,
    ),
    (
        "absent, but only just",
        {"ready": 600},
        trusted_snapshot(host("other"))._replace(removed_seconds={"gpu-0": 5}),
        False,
    ),
    ("absent, with a job when Slurm last knew it", {"shown": "Mixed"}, trusted_snapshot(host("other")), False),
    ("and its slurmd is silent", {"shown": "Idle Completing", "ready": None}, trusted_snapshot(host("other")), False),
    (
        "and it was given up",
        {"shown": "Allocated", "pod_condemned": "unregistered x"},
        trusted_snapshot(host("other")),
        False,
    ),
    ("absent, idle when Slurm last knew it", {"shown": "Idle"}, trusted_snapshot(host("other")), True),
    ("never placed", {"node": "", "ready": None}, UNTRUSTED, True),
    ("its containers have ended", {"phase": "Failed", "ready": None}, UNTRUSTED, True),
    ("forced by a user", {metadata.FORCE_DELETE: "true"}, UNTRUSTED, True),
]


@pytest.mark.parametrize(("law", "settings", "slurm", "may"), PERMITTED, ids=[case[0] for case in PERMITTED])
def test_a_worker_is_deleted_only_on_a_fresh_positive_fact(
    law: str, settings: dict[str, Any], slurm: SlurmSnapshot, may: bool
) -> None:
    assert bool(drains.deletion_permission(worker_of(pod(**settings), slurm))) is may


CHANGES: list[tuple[str, dict[str, Any], bool, str, str, str]] = [
    # law, pod, node cordoned, state, reason in slurm, the change in slurm
    ("a cordoned node drains its host", {}, True, "IDLE", "", "drain"),
    ("a cordoned pod drains its host", {"pod_cordon": "true"}, False, "MIXED", "", "drain"),
    ("a condemned worker drains its host", {"pod_condemned": "scale-in x"}, False, "IDLE", "", "drain"),
    ("a drain that is there is not repeated", {"pod_cordon": "true"}, False, "IDLE+DRAIN", OURS, ""),
    ("a reason that is no longer true is corrected", {"pod_condemned": "update x"}, False, "IDLE+DRAIN", OURS, "drain"),
    ("a foreign drain keeps its reason", {"pod_condemned": "update x"}, False, "IDLE+DRAIN", "disk", ""),
    ("a foreign drain is never undone", {}, False, "IDLE+DRAIN", "disk", ""),
    ("Slurm's own drain is never undone", {}, False, "IDLE+DRAIN+INVALID_REG", "Low RealMemory", ""),
    ("a drain without a reason is not ours", {}, False, "IDLE+DRAIN", "", ""),
    ("our drain without a cause is undone", {}, False, "IDLE+DRAIN", OURS, "undrain"),
    ("an undrain under way is not repeated", {}, False, "IDLE+DRAIN+UNDRAIN", OURS, ""),
    ("a worker that came back is resumed", {}, False, "DOWN", TERMINATING_REASON, "resume"),
    ("one that is not back is not", {"ready": None}, False, "DOWN", TERMINATING_REASON, ""),
    ("a foreign DOWN is left alone", {}, False, "DOWN", "Not responding", ""),
    ("an idle host is left alone", {}, False, "IDLE", "", ""),
]


@pytest.mark.parametrize(
    ("law", "settings", "cordoned", "state", "reason", "change"), CHANGES, ids=[c[0] for c in CHANGES]
)
def test_drains_have_owners(
    law: str, settings: dict[str, Any], cordoned: bool, state: str, reason: str, change: str
) -> None:
    worker = worker_of(pod(**settings), trusted_snapshot(host(state=state, reason=reason)), on=node(cordoned=cordoned))
    actions = list(drains.drain_actions(worker, drains.drain_reason(worker)))
    assert [action.what for action in actions] == ([change] if change else [])
    if change == "drain":
        assert str(actions[0].change.reason).startswith(metadata.REASON_PREFIX)


@pytest.mark.parametrize(
    ("law", "state", "reason", "kept"),
    [
        ("an administrator's", "IDLE+DRAIN", "bad GPU", True),
        ("of a host that went down since", "DOWN+DRAIN+NOT_RESPONDING", "bad GPU", True),
        ("ours", "IDLE+DRAIN", OURS, False),
        ("of Slurm, about the slurmd before", "IDLE+DRAIN+INVALID_REG", "Low RealMemory (reported:1 < 2)", False),
        ("none any more", "IDLE", "bad GPU", False),
    ],
)
def test_a_drain_of_another_owner_outlives_its_worker(law: str, state: str, reason: str, kept: bool) -> None:
    drain = drains.kept_drain(host(state=state, reason=reason, reason_set_by_user="alice"))
    assert drain == (KeptDrain("bad GPU", "alice") if kept else None)


def test_a_new_worker_gets_the_drain_of_its_host_back_and_the_event_names_its_user() -> None:
    new = pod(pod_kept_drain=KeptDrain("bad GPU", "alice").annotation(), pod_cordon="true")
    (action,) = drain_changes(worker_of(new, trusted_snapshot(host())))
    assert (action.change.state, action.change.reason) == (["DRAIN"], "bad GPU")
    assert action.why == "bad GPU (set by alice)"
    drained = worker_of(new, trusted_snapshot(host(state="IDLE+DRAIN", reason="bad GPU")))
    assert drain_changes(drained) == []
    (update,) = pod_updates(node_set(), drained)
    assert update.annotations[metadata.POD_KEPT_DRAIN] is None, "the drain belongs to Slurm again"
    assert worker_of(pod(pod_kept_drain="{nonsense"), trusted_snapshot(host())).kept_drain is None


@pytest.mark.parametrize(("start", "removed"), [(7, False), (8, True)])
def test_the_record_of_the_slurmd_before_does_not_end_a_kept_drain(start: int, removed: bool) -> None:
    before = host(state="IDLE+DRAIN", reason="bad GPU", slurmd_start_time=number(7))
    kept = drains.kept_drain(before)
    assert kept is not None
    new = pod(pod_kept_drain=kept.annotation())
    shown = host(state="IDLE+DRAIN", reason="bad GPU", slurmd_start_time=number(start))
    updates = [update.annotations for update in pod_updates(node_set(), worker_of(new, trusted_snapshot(shown)))]
    assert any(metadata.POD_KEPT_DRAIN in annotations for annotations in updates) is removed


def drain_changes(worker: Worker) -> list[UpdateHost]:
    return list(drains.drain_actions(worker, drains.drain_reason(worker)))


def test_an_unknown_host_is_not_changed() -> None:
    worker = worker_of(pod(pod_cordon="true"), UNTRUSTED)
    assert list(drains.drain_actions(worker, drains.drain_reason(worker))) == []


REASONS = [
    ("the annotation comes first", {metadata.NODE_CORDON_REASON: "fan\nbroken\x00 "}, (), "fan broken"),
    (
        "then conditions that are propagated",
        {},
        (Condition("GpuBad", "True", "Xid", "error 79"), Condition("Other", "True", "a", "b")),
        "(Xid: error 79)",
    ),
    ("then a sentence", {}, (), "Node node1 was cordoned"),
]


@pytest.mark.parametrize(("law", "annotations", "conditions", "text"), REASONS, ids=[case[0] for case in REASONS])
def test_the_reason_says_why_the_node_was_cordoned(law: str, annotations: Any, conditions: Any, text: str) -> None:
    on = node(cordoned=True, annotations=annotations, conditions=conditions)
    assert drains.drain_reason(worker_of(pod(), UNTRUSTED, on=on), ("GpuBad",)) == text


def test_a_reason_is_one_short_printable_line() -> None:
    text = drains.slurm_reason("a\r\nb\t" + "x" * 500)
    assert text.isprintable()
    assert len(text) <= drains.LONGEST_REASON
