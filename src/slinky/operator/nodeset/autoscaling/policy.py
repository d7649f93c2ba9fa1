# SPDX-License-Identifier: Apache-2.0
"""The limits of an autoscaling policy at one moment: windows of the week, and the budget of the day. Pure."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slinky.api.fields.amounts import seconds
from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, ScalingWindow
from slinky.kube.timestamps import age_seconds, parse_timestamp

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOUR = 3600.0


class ScalingLimits(NamedTuple):
    """The limits that count now."""

    min_replicas: int
    max_replicas: int
    warm_pool: int


def current_limits(policy: Autoscaling, now: datetime) -> ScalingLimits:
    """The limits of the first window that contains this time, or those of the policy; a minimum never exceeds them."""
    local = now.astimezone(time_zone(policy.time_zone))
    window = next((item for item in policy.windows if contains(item, local)), ScalingWindow())
    maximum = policy.max_replicas if window.max_replicas is None else window.max_replicas
    minimum = policy.min_replicas if window.min_replicas is None else window.min_replicas
    warm = policy.warm_pool if window.warm_pool is None else window.warm_pool
    return ScalingLimits(min(minimum, maximum), maximum, warm)


def contains(window: ScalingWindow, local: datetime) -> bool:
    """Whether the window contains this local time; a window that ends before it starts ends on the next day."""
    minute = local.hour * 60 + local.minute
    start, end = _minutes(window.start), _minutes(window.end)
    today, yesterday = DAYS[local.weekday()], DAYS[local.weekday() - 1]
    if start < end:
        return _begins(window, today) and start <= minute < end
    return (_begins(window, today) and minute >= start) or (_begins(window, yesterday) and minute < end)


def time_zone(name: str) -> tzinfo:
    """The time zone of this name; UTC if the system does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def is_known_zone(name: str) -> bool:
    """Whether the system knows this time zone."""
    return name == "UTC" or time_zone(name) is not UTC


def used_seconds(status: AutoscalingStatus, replicas: int, zone: tzinfo, now: datetime) -> float:
    """Seconds of workers that the NodeSet has used since the day began."""
    local = now.astimezone(zone)
    if status.used_day != local.date().isoformat():
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        since = parse_timestamp(status.used_since) or now
        return replicas * max(0.0, (local - max(midnight, since.astimezone(zone))).total_seconds())
    return status.used_seconds + replicas * age_seconds(status.used_since, now)


def next_day_seconds(zone: tzinfo, now: datetime) -> float:
    """Seconds until the next day begins."""
    local = now.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return (midnight - local).total_seconds()


def budget_used_up(policy: Autoscaling, status: AutoscalingStatus, replicas: int, now: datetime) -> bool:
    """Whether the workers of the NodeSet have existed for as many hours today as the budget allows."""
    if not policy.worker_hours_per_day:
        return False
    used = used_seconds(status, replicas, time_zone(policy.time_zone), now)
    return used >= policy.worker_hours_per_day * HOUR


def is_near(begin: float | None, policy: Autoscaling, now: datetime) -> bool:
    """Whether a reservation that begins then, in seconds since 1970, is so near that its workers are needed."""
    return begin is not None and begin - duration(policy.reservation_ahead) <= now.timestamp()


def duration(text: str) -> float:
    """A duration of the policy in seconds; 0 if it cannot be read (objects that no webhook has checked)."""
    try:
        return seconds(text)
    except ValueError:
        return 0.0


def _begins(window: ScalingWindow, day: str) -> bool:
    return not window.days or day in window.days


def _minutes(time_of_day: str) -> int:
    hours, _, minutes = time_of_day.partition(":")
    return int(hours) * 60 + int(minutes)
