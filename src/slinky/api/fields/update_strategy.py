# SPDX-License-Identifier: Apache-2.0
"""How a NodeSet's workers are replaced and drained: the parts of its spec that are about change."""

from typing import Annotated, Literal

from msgspec import Meta

from slinky.api.fields.durations import Duration, seconds
from slinky.kube.schema import described, form, list_atomic, rule, rules
from slinky.kube.types import View

RollOut = Literal["RollingUpdate", "OnDelete", "ScheduledUpdate"]
OnTimeout = Literal["Wait", "Requeue", "Cancel"]

_SHARE = "type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')"


def _zero(field: str) -> str:
    """CEL: this field is set and is nothing."""
    value = f"self.{field}"
    return f"(has({value}) && (type({value}) == int ? {value} == 0 : {value}.matches('^0+%$')))"


class RollingUpdate(View, frozen=True):
    """Replaces workers a few at a time, each drained first."""

    __rules__ = (
        rule(
            f"!{_zero('maxUnavailable')} || (has(self.maxSurge) && !{_zero('maxSurge')})",
            "maxUnavailable must be at least 1 unless maxSurge is",
        ),
    )

    max_unavailable: Annotated[
        int | str,
        rules(rule(_SHARE, "maxUnavailable must be a number such as 3 or a percentage such as 25%")),
        described("How many workers may be missing at once: a number, or a share that is rounded up."),
    ] = "25%"
    max_surge: Annotated[
        int | str,
        rules(rule(_SHARE, "maxSurge must be a number such as 3 or a percentage such as 25%")),
        described("How many workers may exist beyond replicas while updating; StatefulSet mode only."),
    ] = 0
    partition: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1),
        described("Only workers with this ordinal or a higher one are updated: a canary."),
    ] = 0
    paused: Annotated[bool, described("Replace no further worker until this is false again.")] = False
    max_failures: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        described("Halt when this many updated workers fail to become ready in time; unset never halts."),
    ] = None
    progress_deadline_seconds: Annotated[
        int, Meta(ge=1, le=2**31 - 1), described("How long an updated worker may take to become ready.")
    ] = 600


class ScheduledUpdate(View, frozen=True):
    """Replaces workers while a maintenance reservation of Slurm holds them."""

    start_time: Annotated[str | None, form("date-time"), described("When the reservation starts, RFC 3339.")] = None
    duration: Annotated[
        Duration,
        rules(rule("duration(self) >= duration('1m')", "duration must be at least 1m")),
        described("How long the reservation lasts."),
    ] = "30m"
    flags: Annotated[tuple[str, ...], list_atomic(), described("Further flags of the reservation.")] = ()


class UpdateStrategy(View, frozen=True):
    """How workers get a new revision."""

    __rules__ = (
        rule(
            "self.type != 'ScheduledUpdate' || (has(self.scheduledUpdate) && has(self.scheduledUpdate.startTime)"
            " && has(self.scheduledUpdate.duration))",
            "scheduledUpdate.startTime and duration are required for ScheduledUpdate",
        ),
    )

    type: Annotated[RollOut, described("When workers are replaced.")] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdate, described("For RollingUpdate.")] = RollingUpdate()
    scheduled_update: Annotated[ScheduledUpdate, described("For ScheduledUpdate.")] = ScheduledUpdate()


class Drain(View, frozen=True):
    """What happens to jobs when a worker has to go."""

    timeout: Annotated[
        Duration | None, described("How long to wait for the jobs of a worker; unset waits until they end.")
    ] = None
    on_timeout: Annotated[
        OnTimeout, described("What then happens to the jobs: nothing, back into the queue, or cancelled.")
    ] = "Wait"
    deletion_deadline: Annotated[
        Duration | None,
        described(
            "How long deleting the whole NodeSet waits for jobs before its workers go anyway."
            " Unset waits until they end; 0s does not wait. A NodeSet whose Controller is gone never waits."
        ),
    ] = None
    protect_idle: Annotated[
        bool,
        described(
            "Refuse the eviction of idle workers too, until Slurm has drained them:"
            " then none is evicted with a job that has only just begun."
        ),
    ] = False

    @property
    def timeout_seconds(self) -> float | None:
        """Seconds to wait for jobs, None without limit."""
        return None if self.timeout is None else seconds(self.timeout)

    @property
    def deletion_seconds(self) -> float | None:
        """Seconds a deletion waits for jobs, None without limit."""
        return None if self.deletion_deadline is None else seconds(self.deletion_deadline)


def scaled(share: int | str, total: int) -> int:
    """A number, or a percentage of `total` rounded up; 1 where it is neither, as the API has always had it."""
    if isinstance(share, int):
        return share
    number = share.removesuffix("%")
    if number == share or not (number.isascii() and number.isdigit()):
        return 1
    return -(-int(number) * total // 100)
