# SPDX-License-Identifier: Apache-2.0
"""Texts of the pod condition, and when a condition is written again."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.bridge.build import NOW, pod, record

from slinky.bridge import names
from slinky.bridge.status import conditions
from slinky.insight.forecast import StartRange, StartSource
from slinky.slurm import number


@pytest.mark.parametrize(
    ("reason", "fields", "words"),
    [
        ("QOSGrpGRES", {"qos": "high"}, "for all jobs together: high."),
        ("MaxCpuPerAccount", {"qos": "high"}, "CPUs for one account: high."),
        ("Licenses", {"licenses": "matlab:1"}, "in use: matlab:1."),
        ("Resources", {"state_description": "No suitable topology unit found"}, "No block or switch"),
        ("SomethingNew", {}, "Slurm reports SomethingNew."),
    ],
)
def test_a_pending_job_names_what_blocks_it(reason: str, fields: dict[str, str], words: str) -> None:
    pending = record("7", "PENDING", reason=reason)
    assert pending.detail is not None
    detail = structs.replace(pending.detail, **fields)
    assert words in conditions.pending_text(structs.replace(pending, detail=detail)).message


def test_a_condition_with_the_same_text_is_not_written_again() -> None:
    text = conditions.pending_text(record("7", "PENDING", reason="Priority"))
    old = pod(
        status={
            "conditions": [{"type": names.SCHEDULED, "status": "False", "reason": "Priority", "message": text.message}]
        }
    )
    assert not conditions.differs(old, text, NOW)
    assert conditions.differs(pod(), text, NOW)


@pytest.mark.parametrize(
    ("before", "after", "similar"),
    [("12:10", "12:11", True), ("12:10", "12:13", False), ("22:00", "22:45", True), ("22:00", "23:30", False)],
)
def test_a_start_that_moved_only_a_little_does_not_change_the_message(before: str, after: str, similar: bool) -> None:
    first, second = (f"x. Expected to start at 2026-06-01T{time}:00Z." for time in (before, after))
    assert conditions.is_similar(first, second, NOW) is conditions.is_similar(second, first, NOW) is similar
    assert not conditions.is_similar(first, second.replace("x.", "y."), NOW)


@pytest.mark.parametrize(
    ("before", "after", "similar"),
    [
        ("12:10:00Z and 2026-06-01T13:10", "12:11:00Z and 2026-06-01T13:11", True),
        ("12:10:00Z and 2026-06-01T13:10", "12:11:00Z and 2026-06-01T14:11", False),
        ("12:10:00Z and 2026-06-01T13:10", "12:20:00Z and 2026-06-01T13:10", False),
    ],
)
def test_both_ends_of_a_range_decide_whether_it_moved(before: str, after: str, similar: bool) -> None:
    first, second = (f"x. Expected to start between 2026-06-01T{t}:00Z (simulation)." for t in (before, after))
    assert conditions.is_similar(first, second, NOW) is similar


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (StartRange(7, 600, 600, StartSource.SLURMCTLD), "Expected to start at {600} (slurmctld's plan)."),
        (StartRange(7, 0, 900, StartSource.SIMULATION), "Expected to start between {0} and {900} (simulation)."),
        (StartRange(7, None, None, StartSource.NONE, why="the node n1 is down", doubted=True), "start: the node n1"),
    ],
)
def test_the_forecast_of_the_queue_replaces_the_plan_of_slurmctld(start: StartRange, text: str) -> None:
    pending = record("7", "PENDING", reason="Priority")
    assert pending.detail is not None
    plan = structs.replace(pending.detail, start_time=number(int(NOW.timestamp()) + 86400))
    begin = NOW.timestamp()
    moved = replace(start, earliest=_later(start.earliest, begin), latest=_later(start.latest, begin))
    message = conditions.pending_text(structs.replace(pending, detail=plan), "", NOW, moved).message
    for seconds in (0, 600, 900):
        shown = (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:00Z")
        text = text.replace(f"{{{seconds}}}", shown)
    assert text in message
    assert message.count("start at") + message.count("start between") <= 1


def _later(seconds: int | None, begin: float) -> int | None:
    return None if seconds is None else int(begin) + seconds


@given(st.text(max_size=60))
def test_a_condition_reason_is_always_valid(token: str) -> None:
    text = conditions.pending_text(record("7", "PENDING", reason=token))
    assert text.reason.replace("_", "a").isalnum()


@pytest.mark.parametrize(("seconds", "shown"), [(600, True), (0, False), (-600, False)])
def test_a_start_in_the_past_is_not_expected(seconds: int, shown: bool) -> None:
    pending = record("7", "PENDING", reason="Priority")
    assert pending.detail is not None
    start = number(int(NOW.timestamp()) + seconds)
    expecting = structs.replace(pending, detail=structs.replace(pending.detail, start_time=start))
    assert ("Expected to start" in conditions.pending_text(expecting, now=NOW).message) is shown
    assert conditions.seconds_until_start(expecting, NOW) == (seconds if shown else None)
