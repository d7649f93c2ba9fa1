# SPDX-License-Identifier: Apache-2.0
"""`spec.updateStrategy` of a NodeSet: when and how fast workers are replaced by workers of a new revision."""

from typing import Annotated, Literal

from msgspec import Meta

from slinky.api.fields.amounts import Duration
from slinky.kube.schema import described, list_atomic, openapi_format, rule, rules
from slinky.kube.types import View

RollOut = Literal["RollingUpdate", "OnDelete", "ScheduledUpdate"]

_NUMBER_OR_PERCENTAGE = "type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')"


def _is_zero(field: str) -> str:
    """CEL expression: the field is set, and is 0 or 0%."""
    value = f"self.{field}"
    return f"(has({value}) && (type({value}) == int ? {value} == 0 : {value}.matches('^0+%$')))"


class RollingUpdate(View, frozen=True):
    """Replaces a few workers at a time, and drains each one first."""

    __rules__ = (
        rule(
            f"!{_is_zero('maxUnavailable')} || (has(self.maxSurge) && !{_is_zero('maxSurge')})",
            "maxUnavailable and maxSurge must not both be 0",
        ),
    )

    max_unavailable: Annotated[
        int | str,
        rules(rule(_NUMBER_OR_PERCENTAGE, "maxUnavailable must be a number such as 3 or a percentage such as 25%")),
        described(
            "Maximum number of workers that may be unavailable during the update."
            " A percentage refers to the desired number of workers and is rounded up."
        ),
    ] = "25%"
    max_surge: Annotated[
        int | str,
        rules(rule(_NUMBER_OR_PERCENTAGE, "maxSurge must be a number such as 3 or a percentage such as 25%")),
        described(
            "Maximum number of workers that may exist in addition to replicas during the update."
            " A percentage is rounded up. Only in StatefulSet mode."
        ),
    ] = 0
    partition: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1),
        described("Only workers with this ordinal or a higher one are updated, for example as a canary."),
    ] = 0
    paused: Annotated[bool, described("Stop the update: no further worker is replaced while this is true.")] = False
    max_failures: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        described(
            "Stop the update when this many updated workers have not become ready within progressDeadlineSeconds."
            " If unset, the update never stops because of failures."
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        int, Meta(ge=1, le=2**31 - 1), described("How many seconds an updated worker may take to become ready.")
    ] = 600


class ScheduledUpdate(View, frozen=True):
    """Replaces workers during a maintenance reservation in Slurm."""

    start_time: Annotated[
        str | None, openapi_format("date-time"), described("Start of the reservation (RFC 3339).")
    ] = None
    duration: Annotated[
        Duration,
        rules(rule("duration(self) >= duration('1m')", "duration must be at least 1m")),
        described("Length of the reservation."),
    ] = "30m"
    flags: Annotated[tuple[str, ...], list_atomic(), described("Additional flags of the reservation.")] = ()


class UpdateStrategy(View, frozen=True):
    """How workers are replaced by workers of a new revision."""

    __rules__ = (
        rule(
            "self.type != 'ScheduledUpdate' || (has(self.scheduledUpdate) && has(self.scheduledUpdate.startTime)"
            " && has(self.scheduledUpdate.duration))",
            "scheduledUpdate.startTime and duration are required for ScheduledUpdate",
        ),
    )

    type: Annotated[
        RollOut,
        described(
            "When workers are replaced. RollingUpdate: as soon as the revision changes, a few at a time."
            " OnDelete: when you delete their pods. ScheduledUpdate: during a maintenance reservation."
        ),
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdate, described("Settings of the type RollingUpdate.")] = RollingUpdate()
    scheduled_update: Annotated[ScheduledUpdate, described("Settings of the type ScheduledUpdate.")] = ScheduledUpdate()
