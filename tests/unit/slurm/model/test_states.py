# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.model.states import JOB_BASES, JOB_ENDED, JOB_FLAGS, NODE_BASES, NODE_FLAGS, JobState, NodeState

WORDS = st.lists(st.from_regex(r"[A-Z_]{1,12}", fullmatch=True), max_size=4)


@pytest.mark.parametrize("base", sorted(JOB_ENDED))
def test_every_end_state_counts_as_ended(base: str) -> None:
    assert JobState.of([base]).ended
    assert not JobState.of([base]).live


@pytest.mark.parametrize(
    "words",
    [
        ["COMPLETED", "COMPLETING"],
        ["PREEMPTED", "REQUEUED"],
        ["FAILED", "SPECIAL_EXIT"],
        ["RUNNING"],
        ["PENDING"],
        ["SUSPENDED"],
        ["NEWFANGLED"],
        [],
    ],
)
def test_a_job_that_may_still_have_or_need_nodes_has_not_ended(words: list[str]) -> None:
    assert JobState.of(words).live


@given(WORDS)
def test_an_unknown_word_never_ends_a_job(words: list[str]) -> None:
    unknown = [word for word in words if word not in JOB_BASES]
    assert not JobState.of(unknown).ended


@given(WORDS)
def test_an_unknown_word_never_drains_a_node(words: list[str]) -> None:
    unknown = [word for word in words if word not in NODE_BASES]
    assert not NodeState.of(["DRAIN", *unknown]).drained


@pytest.mark.parametrize(
    ("words", "drained"),
    [
        (["IDLE", "DRAIN"], True),
        (["DOWN", "DRAIN"], True),
        (["ALLOCATED", "DRAIN"], False),
        (["MIXED", "DRAIN"], False),
        (["IDLE", "DRAIN", "COMPLETING"], False),
        (["IDLE", "DRAIN", "UNDRAIN"], False),
        (["IDLE"], False),
        (["UNKNOWN", "DRAIN"], False),
        (["DRAIN"], False),
    ],
)
def test_drained_means_draining_without_jobs(words: list[str], drained: bool) -> None:
    assert NodeState.of(words).drained is drained


@pytest.mark.parametrize("flag", sorted(NODE_FLAGS))
def test_every_flag_of_a_node_is_kept(flag: str) -> None:
    state = NodeState.of(["IDLE", flag])
    assert flag in state
    assert state.base == "IDLE"
    assert not state.unknown


@pytest.mark.parametrize("flag", sorted(JOB_FLAGS))
def test_every_flag_of_a_job_is_kept(flag: str) -> None:
    state = JobState.of(["RUNNING", flag])
    assert flag in state
    assert state.running
    assert not state.unknown


def test_unknown_words_are_kept() -> None:
    assert JobState.of(["RUNNING", "LEVITATING"]).unknown == {"LEVITATING"}


def test_equal_states_share_one_instance_and_compare_by_value() -> None:
    assert JobState.of(["RUNNING"]) is JobState.of(("RUNNING",))
    assert NodeState.of(["IDLE", "DRAIN", "CLOUD"]) == NodeState.of(["CLOUD", "idle", "DRAIN"])
    assert JobState.of(["RUNNING"]) != NodeState.of(["RUNNING"])


def test_a_configuring_job_runs_but_is_not_ready() -> None:
    state = JobState.of(["RUNNING", "CONFIGURING"])
    assert state.running
    assert not state.ready
    assert state.holds_nodes


@pytest.mark.parametrize("flag", ["DRAIN", "NOT_RESPONDING", "MAINTENANCE", "POWERED_DOWN", "FAIL"])
def test_an_unschedulable_flag_makes_a_node_unschedulable(flag: str) -> None:
    assert NodeState.of(["IDLE"]).schedulable
    assert not NodeState.of(["IDLE", flag]).schedulable
