# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime, timedelta, timezone

import pytest

from slinky.kube.timestamps import (
    age_seconds,
    format_micro_timestamp,
    format_timestamp,
    parse_timestamp,
    seconds_since,
    unix_seconds,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNKNOWN = ["", None, "yesterday", "2026-01-01T12:00:00"]  # the last has no UTC offset


def test_a_time_and_its_unix_seconds_give_the_same_timestamp() -> None:
    assert format_timestamp(NOON) == format_timestamp(NOON.timestamp()) == "2026-01-01T12:00:00Z"
    assert format_micro_timestamp(NOON.replace(microsecond=5)) == "2026-01-01T12:00:00.000005Z"


def test_parsing_inverts_formatting() -> None:
    assert parse_timestamp(format_timestamp(NOON)) == NOON
    assert parse_timestamp(format_micro_timestamp(NOON)) == NOON
    assert unix_seconds(format_timestamp(NOON)) == NOON.timestamp()


def test_a_timestamp_of_another_time_zone_names_the_same_moment() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    assert parse_timestamp(there.isoformat()) == NOON


@pytest.mark.parametrize("timestamp", UNKNOWN)
def test_an_unknown_timestamp_has_no_time_and_no_age(timestamp: str | None) -> None:
    assert parse_timestamp(timestamp) is None
    assert unix_seconds(timestamp) == 0.0
    assert seconds_since(timestamp, NOON) is None
    assert age_seconds(timestamp, NOON) == 0.0


def test_the_future_has_negative_seconds_but_no_negative_age() -> None:
    later = format_timestamp(NOON + timedelta(minutes=1))
    earlier = format_timestamp(NOON - timedelta(minutes=1))
    assert (seconds_since(later, NOON), age_seconds(later, NOON)) == (-60, 0)
    assert (seconds_since(earlier, NOON), age_seconds(earlier, NOON)) == (60, 60)
