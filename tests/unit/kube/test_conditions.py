# SPDX-License-Identifier: Apache-2.0
"""Laws of conditions."""

from datetime import UTC, datetime, timedelta

import pytest

from slinky.kube.conditions import (
    build_condition,
    condition_manifest,
    condition_manifests,
    condition_status,
    find_condition,
    is_condition_true,
    with_condition,
)
from slinky.kube.types import Condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_an_unchanged_status_gives_equal_conditions() -> None:
    first = with_condition((), "Ready", True, "AllUp", generation=1, now=NOW)
    assert with_condition(first, "Ready", True, "AllUp", generation=1, now=LATER) == first


def test_the_transition_time_changes_only_with_the_status() -> None:
    first = with_condition((), "Ready", None, "Starting", generation=1, now=NOW)
    second = with_condition(first, "Ready", None, "StillStarting", generation=2, now=LATER)
    assert second[0].last_transition_time == "2026-01-01T00:00:00Z"
    third = with_condition(second, "Ready", True, "AllUp", generation=2, now=LATER)
    assert third[0].last_transition_time == "2026-01-01T01:00:00Z"


@pytest.mark.parametrize(("value", "status"), [(True, "True"), (False, "False"), (None, "Unknown")])
def test_none_is_the_status_unknown(value: bool | None, status: str) -> None:
    assert condition_status(value) == build_condition((), "Ready", value, now=NOW).status == status


def test_a_condition_without_a_transition_time_gets_one() -> None:
    previous = [Condition("Ready", "True")]
    assert build_condition(previous, "Ready", True, now=NOW).last_transition_time == "2026-01-01T00:00:00Z"


def test_a_condition_keeps_its_position() -> None:
    first = with_condition((), "A", True, "x", generation=1, now=NOW)
    both = with_condition(first, "B", False, "y", generation=1, now=NOW)
    again = with_condition(both, "A", False, "z", generation=1, now=LATER)
    assert [(condition.type, condition.status) for condition in again] == [("A", "False"), ("B", "False")]
    assert not is_condition_true(again, "A")
    assert find_condition(again, "C") is None


def test_a_manifest_has_every_required_field() -> None:
    conditions = with_condition((), "Ready", True, "", generation=0, now=NOW)
    manifest = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert condition_manifests(conditions) == [condition_manifest(conditions[0])] == [manifest]
