# SPDX-License-Identifier: Apache-2.0
"""Laws of conditions."""

from datetime import UTC, datetime, timedelta

from slinky.kube.conditions import changed, find, is_true, manifests, without

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_an_unchanged_world_gives_an_equal_tuple() -> None:
    first = changed((), "Ready", True, "AllUp", generation=1, now=NOW)
    assert changed(first, "Ready", True, "AllUp", generation=1, now=LATER) == first


def test_the_transition_time_moves_only_with_the_status() -> None:
    first = changed((), "Ready", None, "Starting", generation=1, now=NOW)
    second = changed(first, "Ready", None, "StillStarting", generation=2, now=LATER)
    assert second[0].last_transition_time == "2026-01-01T00:00:00Z"
    third = changed(second, "Ready", True, "AllUp", generation=2, now=LATER)
    assert third[0].last_transition_time == "2026-01-01T01:00:00Z"


def test_a_condition_keeps_its_place() -> None:
    both = changed(changed((), "A", True, "x", generation=1, now=NOW), "B", False, "y", generation=1, now=NOW)
    again = changed(both, "A", False, "z", generation=1, now=LATER)
    assert [(found.type, found.status) for found in again] == [("A", "False"), ("B", "False")]
    assert not is_true(again, "A")
    assert find(without(again, "A"), "A") is None


def test_the_server_gets_every_field_it_requires() -> None:
    (written,) = manifests(changed((), "Ready", True, "", generation=0, now=NOW))
    assert written == {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
