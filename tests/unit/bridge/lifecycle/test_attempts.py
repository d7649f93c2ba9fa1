# SPDX-License-Identifier: Apache-2.0
"""How long the bridge waits after attempts that failed."""

import random

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge.lifecycle import attempts as memory
from slinky.bridge.lifecycle.attempts import Attempts, Evictions
from slinky.bridge.lifecycle.decide.actions import EvictionLimit, EvictPods
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.workload.grouping import Workload
from slinky.observe import ManualClock
from slinky.slurm import Problem, Rejected

WORKLOAD = Workload("ns", "Pod", "p")
END = ConditionText(False, "SlurmNodeFailed", "Slurm job 7 lost a node.")


def rejected(number: int = 2014) -> Rejected:
    return Rejected(Problem(number=number, text="no"))


def build_attempts(clock: ManualClock) -> Attempts:
    return Attempts(clock, Evictions(clock, 1, 2, 0.25, lambda: 0), random.Random(1))  # noqa: S311


@pytest.mark.parametrize(("number", "longest"), [(2014, 1800.0), (2050, 120.0), (2018, 60.0)])
async def test_the_delay_after_rejections_grows_up_to_a_limit(number: int, longest: float) -> None:
    clock = ManualClock()
    attempts, delays = build_attempts(clock), list[float]()
    for _ in range(12):
        attempts.record_refusal("ns", "", "digest", rejected(number))
        refusal = attempts.refusal("ns", "", "digest")
        assert refusal is not None
        assert refusal.number == number
        delays.append(refusal.retry_in)
        await clock.advance(refusal.retry_in)
        assert attempts.refusal("ns", "", "digest") is None
    assert max(delays) <= longest
    assert min(delays[-4:]) >= longest / 2 > delays[0] / 2


def test_a_rejection_counts_for_the_same_request_in_the_same_namespace() -> None:
    attempts = build_attempts(ManualClock())
    attempts.record_refusal("ns", "", "digest", rejected())
    assert attempts.refusal("ns", "", "digest") is not None
    others = [("ns", "", "other"), ("other", "", "digest"), ("ns", "7", "digest")]
    assert [attempts.refusal(*key) for key in others] == [None] * 3
    attempts.record_acceptance("ns", "", "digest")
    assert attempts.refusal("ns", "", "digest") is None


async def test_rejected_requests_are_tried_again_soon_when_hosts_have_changed() -> None:
    clock = ManualClock()
    attempts = build_attempts(clock)
    for _ in range(8):
        attempts.record_refusal("ns", "", "digest", rejected())
    attempts.hosts_changed()
    await clock.advance(memory.CHANGED_HOSTS_DELAY)
    assert attempts.refusal("ns", "", "digest") is None


async def test_a_namespace_with_many_rejections_waits() -> None:
    clock = ManualClock()
    attempts = build_attempts(clock)
    for index in range(memory.NAMESPACE_REFUSALS):
        assert attempts.submission_facts(WORKLOAD, "").namespace_delay == 0
        attempts.record_refusal("ns", "", str(index), rejected())
    assert attempts.submission_facts(WORKLOAD, "").namespace_delay == memory.NAMESPACE_WINDOW
    assert attempts.submission_facts(Workload("other", "Pod", "p"), "").namespace_delay == 0
    await clock.advance(memory.NAMESPACE_WINDOW)
    assert attempts.submission_facts(WORKLOAD, "").namespace_delay <= 0


async def test_the_same_pods_are_submitted_ever_more_slowly() -> None:
    clock = ManualClock()
    attempts, delays = build_attempts(clock), list[float]()
    for _ in range(12):
        attempts.record_submission("pods")
        delays.append(attempts.submission_facts(WORKLOAD, "pods").delay)
        await clock.advance(max(0.0, delays[-1]))
    free = memory.FREE_SUBMISSIONS - 1
    assert delays[:free] == [0.0] * free
    assert 150.0 <= delays[-1] <= 300.0
    assert attempts.submission_facts(WORKLOAD, "others").delay <= 0
    await clock.advance(memory.SUBMISSION_MEMORY)
    attempts.record_submission("pods")
    assert attempts.submission_facts(WORKLOAD, "pods").delay <= 0


async def test_a_host_that_did_not_suit_is_avoided_longer_each_time() -> None:
    clock = ManualClock()
    attempts, delays = build_attempts(clock), list[float]()
    for _ in range(10):
        attempts.avoid(WORKLOAD, "h1", "devices differ")
        (avoided,) = attempts.avoided_hosts(WORKLOAD)
        assert (avoided.host, avoided.problem) == ("h1", "devices differ")
        delays.append(avoided.left)
        await clock.advance(avoided.left)
        assert attempts.avoided_hosts(WORKLOAD) == ()
    assert delays[0] <= 30
    assert 900 <= delays[-1] <= 1800
    attempts.avoid(WORKLOAD, "h1", "")
    attempts.forget(WORKLOAD)
    assert attempts.avoided_hosts(WORKLOAD) == ()


async def test_a_host_that_changed_is_tried_again_at_once_but_its_repetitions_count() -> None:
    clock, other = ManualClock(), Workload("ns", "Pod", "other")
    attempts, delays = build_attempts(clock), list[float]()
    attempts.avoid(other, "h2", "tainted")
    for _ in range(10):
        attempts.avoid(WORKLOAD, "h1", "tainted")
        delays.append(attempts.avoided_hosts(WORKLOAD)[0].left)
        assert attempts.reconsider_host("h1") == {WORKLOAD}
        assert attempts.avoided_hosts(WORKLOAD) == ()
        assert attempts.reconsider_host("h1") == set()
    assert 900 <= delays[-1] <= 1800
    assert [avoided.host for avoided in attempts.avoided_hosts(other)] == ["h2"]
    attempts.forget(other)
    assert attempts.reconsider_host("h2") == set()


async def test_submissions_pause_after_a_loss() -> None:
    clock = ManualClock()
    attempts = build_attempts(clock)
    assert attempts.pause_left() <= 0
    attempts.pause()
    assert attempts.pause_left() == memory.PAUSE_AFTER_LOSS
    await clock.advance(memory.PAUSE_AFTER_LOSS)
    assert attempts.pause_left() <= 0


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_ENTRIES", 10)
    clock = ManualClock()
    attempts = build_attempts(clock)
    for index in range(100):
        attempts.record_refusal("ns", "", str(index), rejected())
    assert attempts.refusal("ns", "", "99") is not None


def evict(count: int, limit: EvictionLimit) -> EvictPods:
    return EvictPods(tuple(pod(f"p-{index}") for index in range(count)), END, limit)


@pytest.mark.parametrize(("running", "allowed"), [(0, 2), (8, 2), (100, 25)])
async def test_failed_jobs_are_limited_by_number_and_by_share(running: int, allowed: int) -> None:
    clock = ManualClock()
    evictions = Evictions(clock, 1, 2, 0.25, lambda: running)
    assert evictions.failed_left() == allowed
    evictions.record([evict(500, EvictionLimit.FAILED)] * allowed)  # a gang counts once
    assert (evictions.failed_left(), evictions.lost_left()) == (0, 1)
    await clock.advance(memory.EVICTION_WINDOW)
    assert evictions.failed_left() == allowed


async def test_pods_of_lost_jobs_are_limited_by_number() -> None:
    clock = ManualClock()
    evictions = Evictions(clock, 3, 2, 0.25, lambda: 0)
    evictions.record([evict(2, EvictionLimit.LOST), evict(9, EvictionLimit.NONE)])
    assert (evictions.lost_left(), evictions.failed_left()) == (1, 2)


async def test_evicted_jobs_still_count_as_part_of_the_whole() -> None:
    clock, running = ManualClock(), [100]
    evictions = Evictions(clock, 1, 2, 0.25, lambda: running[0])
    assert evictions.failed_left() == 25
    evictions.record([evict(1, EvictionLimit.FAILED)] * 20)
    running[0] = 80
    await clock.advance(memory.COUNT_SECONDS + 1)
    assert evictions.failed_left() == 5
