# SPDX-License-Identifier: Apache-2.0
"""Windows of the week and the budget of the day."""

from datetime import UTC, datetime

import pytest

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, ScalingWindow
from slinky.operator.nodeset.autoscaling.policy import (
    contains,
    current_limits,
    is_known_zone,
    next_day_seconds,
    time_zone,
    used_seconds,
)

MONDAY = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "hour", "inside"),
    [
        (ScalingWindow(), 12, True),
        (ScalingWindow(start="08:00", end="18:00"), 7, False),
        (ScalingWindow(start="08:00", end="18:00"), 8, True),
        (ScalingWindow(start="08:00", end="18:00"), 18, False),
        (ScalingWindow(days=("Mon",)), 12, True),
        (ScalingWindow(days=("Tue",)), 12, False),
        (ScalingWindow(start="22:00", end="06:00"), 23, True),
        (ScalingWindow(start="22:00", end="06:00"), 5, True),
        (ScalingWindow(start="22:00", end="06:00"), 12, False),
        (ScalingWindow(days=("Sun",), start="22:00", end="06:00"), 5, True),
        (ScalingWindow(days=("Mon",), start="22:00", end="06:00"), 5, False),
    ],
)
def test_a_window_contains_its_times(window: ScalingWindow, hour: int, inside: bool) -> None:
    assert contains(window, MONDAY.replace(hour=hour)) is inside


def test_windows_are_in_the_time_zone_of_the_policy() -> None:
    policy = Autoscaling(
        max_replicas=5, time_zone="Asia/Tokyo", windows=(ScalingWindow(start="20:00", end="22:00", max_replicas=9),)
    )
    assert current_limits(policy, MONDAY).max_replicas == 9  # 21:00 in Tokyo


def test_a_minimum_never_exceeds_the_maximum() -> None:
    policy = Autoscaling(max_replicas=9, min_replicas=4, windows=(ScalingWindow(max_replicas=2),))
    assert current_limits(policy, MONDAY)[:2] == (2, 2)


def test_an_unknown_time_zone_is_utc() -> None:
    assert time_zone("Mars/Olympus") is UTC
    assert not is_known_zone("../../etc/passwd")
    assert is_known_zone("UTC")


def test_a_new_day_counts_from_midnight() -> None:
    status = AutoscalingStatus(used_day="2026-11-15", used_seconds=9999, used_since="2026-11-15T20:00:00Z")
    assert used_seconds(status, 2, UTC, MONDAY) == 2 * 12 * 3600
    assert next_day_seconds(UTC, MONDAY) == 12 * 3600
