# SPDX-License-Identifier: Apache-2.0
"""`spec.outage` of a Controller: a planned outage of a whole cluster, its phases, and their record in the status."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from slinky.api.fields.amounts import Duration, seconds
from slinky.kube.schema import described, list_atomic, openapi_format, rule, rules
from slinky.kube.timestamps import parse_timestamp
from slinky.kube.types import View


class OutagePhase(StrEnum):
    """A phase of an outage, in order; its value is written to the status.

    - `drains`: hosts accept no new jobs
    - `stops_login`, `stops_controller`, `stops_accounting`: login hosts, slurmctld with slurmrestd, and slurmdbd do
      not run
    - `meaning` describes the phase in conditions and events
    """

    drains: bool
    stops_login: bool
    stops_controller: bool
    stops_accounting: bool
    meaning: str

    NONE = "", False, False, False, False, "no outage is planned"
    SCHEDULED = "Scheduled", False, False, False, False, "jobs that would not end before the outage do not start"
    DRAINING = "Draining", True, False, False, False, "no job starts, and running jobs go on to their end"
    DRAINED = "Drained", True, False, False, False, "no job runs; the daemons go on"
    STOPPING_LOGIN = "StoppingLogin", True, True, False, False, "login hosts stop"
    STOPPING_CONTROLLER = "StoppingController", True, True, True, False, "slurmctld saves its state and stops"
    STOPPING_ACCOUNTING = "StoppingAccounting", True, True, True, True, "slurmdbd stops"
    STOPPED = "Stopped", True, True, True, True, "the daemons are stopped"
    STARTING_ACCOUNTING = "StartingAccounting", True, True, True, False, "slurmdbd starts"
    STARTING_CONTROLLER = "StartingController", True, True, False, False, "slurmctld starts"
    RESUMING = "Resuming", False, False, False, False, "hosts accept jobs again, and login hosts start"
    COMPLETED = "Completed", False, False, False, False, "the outage is over"

    def __new__(
        cls,
        value: str,
        drains: bool,
        stops_login: bool,
        stops_controller: bool,
        stops_accounting: bool,
        meaning: str,
    ) -> "OutagePhase":
        """Create a member whose value is only the first item of its row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.drains, member.stops_login = drains, stops_login
        member.stops_controller, member.stops_accounting = stops_controller, stops_accounting
        member.meaning = meaning
        return member

    @classmethod
    def parse(cls, text: str) -> "OutagePhase":
        """The phase with this value; NONE for a value that another version of the operator wrote."""
        return next((phase for phase in cls if phase.value == text), cls.NONE)

    @property
    def active(self) -> bool:
        """Whether the outage has begun and is not over."""
        return self not in {OutagePhase.NONE, OutagePhase.SCHEDULED, OutagePhase.COMPLETED}


class Outage(View, frozen=True):
    """A planned outage of the whole cluster. To end it early, remove it from the spec."""

    start_time: Annotated[
        str,
        openapi_format("date-time"),
        Meta(max_length=64),
        described("When hosts are drained (RFC 3339); a reservation lets no job start that would run longer."),
    ]
    duration: Annotated[
        Duration,
        rules(rule("duration(self) >= duration('1m')", "duration must be at least 1m")),
        described("How long the outage lasts; then the cluster starts again by itself."),
    ]
    stop_daemons: Annotated[
        bool,
        described(
            "Stop login hosts, slurmctld, slurmrestd and slurmdbd once no job runs; otherwise hosts are only drained."
        ),
    ] = True
    reason: Annotated[str, Meta(max_length=128), described("Why; it is part of the drain reason in Slurm.")] = ""

    @property
    def start(self) -> datetime | None:
        """When the outage starts; None if the text is not a time."""
        return parse_timestamp(self.start_time)

    @property
    def end(self) -> datetime | None:
        """When the outage ends; None if it has no valid start."""
        return self.start + timedelta(seconds=seconds(self.duration)) if self.start else None


class OutageStep(View, frozen=True):
    """The begin of a phase."""

    phase: Annotated[str, described("The phase.")] = ""
    time: Annotated[str, openapi_format("date-time"), described("When the phase began.")] = ""


class OutageStatus(View, frozen=True):
    """How far an outage is."""

    start_time: Annotated[str, described("The startTime of the outage that this status describes.")] = ""
    phase: Annotated[str, described("The present phase.")] = ""
    message: Annotated[str, described("What the phase means, and what it waits for.")] = ""
    timeline: Annotated[
        tuple[OutageStep, ...], list_atomic(), described("The phases so far, with the time at which each began.")
    ] = ()
