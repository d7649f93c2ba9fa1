# SPDX-License-Identifier: Apache-2.0
"""What a pod says about its job, and when that is news."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import NOW, pod, record

from slinky.bridge import names
from slinky.bridge.status import conditions, reasons


def test_every_reason_has_a_sentence() -> None:
    for token in (*reasons.WAITING, "QOSMaxCpuPerUserLimit", "AssocGrpCpuLimit", "SomethingNew", ""):
        assert str(reasons.waiting(token)).strip()
    assert "SomethingNew" in str(reasons.waiting("SomethingNew"))
    assert reasons.waiting("ReqNodeNotAvail, UnavailableNodes:k001").sentence.startswith("Nodes")


def test_a_start_that_hardly_moved_is_no_news() -> None:
    said = conditions.of_pending(record("7", "PENDING", reason="Priority"))
    old = pod(
        status={
            "conditions": [{"type": names.SCHEDULED, "status": "False", "reason": "Priority", "message": said.message}]
        }
    )
    assert not conditions.news(old, said, NOW)
    assert conditions.news(pod(), said, NOW)


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [("12:10", "12:11", True), ("12:10", "12:13", False), ("22:00", "22:45", True), ("22:00", "23:30", False)],
)
def test_a_start_that_is_far_away_may_move_more(before: str, after: str, alike: bool) -> None:
    first, second = (f"x. Expected to start at 2026-06-01T{time}:00Z." for time in (before, after))
    assert conditions.alike(first, second, NOW) is conditions.alike(second, first, NOW) is alike
    assert not conditions.alike(first, second.replace("x.", "y."), NOW)


@given(st.text(max_size=60))
def test_a_condition_reason_is_always_valid(token: str) -> None:
    said = conditions.of_pending(record("7", "PENDING", reason=token))
    assert said.reason.replace("_", "a").isalnum()
