# SPDX-License-Identifier: Apache-2.0
"""Timestamps of Kubernetes objects: RFC 3339 text, to the second, in UTC (`2026-01-01T12:00:00Z`).

A timestamp that is missing, malformed or without a UTC offset counts as unknown: `parse_timestamp` returns None for
it, and each function below states what it returns then.
"""

from datetime import UTC, datetime


def format_timestamp(moment: datetime | float) -> str:
    """A timestamp in the format of `metav1.Time`, from a time in UTC or from Unix seconds."""
    utc = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_timestamp(moment: datetime) -> str:
    """A timestamp with microseconds, in the format of `metav1.MicroTime`; `moment` is in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(timestamp: str | None) -> datetime | None:
    """The time that a timestamp names; None if it is unknown."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def unix_seconds(timestamp: str | None) -> float:
    """A timestamp as Unix seconds; 0 if it is unknown."""
    moment = parse_timestamp(timestamp)
    return moment.timestamp() if moment else 0.0


def seconds_since(timestamp: str | None, now: datetime) -> float | None:
    """Seconds from a timestamp until `now`, negative if it lies in the future; None if it is unknown."""
    moment = parse_timestamp(timestamp)
    return (now - moment).total_seconds() if moment else None


def age_seconds(timestamp: str | None, now: datetime) -> float:
    """Seconds since a timestamp; 0 if it lies in the future (clocks differ) or is unknown."""
    return max(0.0, seconds_since(timestamp, now) or 0.0)
