# SPDX-License-Identifier: Apache-2.0
"""The times of a job from submission to its end, as events and as segments of a line. Pure."""

from dataclasses import dataclass
from enum import Enum

from slinky.insight.forecast import StartRange
from slinky.slurm import Job

#: The width of the whole line.
WIDTH = 1000.0
#: A time limit of more seconds counts as none.
_FOREVER = 365 * 86400


class Phase(Enum):
    """What a job does in a segment of the line."""

    NOT_ELIGIBLE = "not eligible"
    WAITING = "waiting"
    EXPECTED = "expected start"
    RUNNING = "running"
    REMAINING = "time left by its limit"


@dataclass(frozen=True)
class Segment:
    """A part of the line, in units of `WIDTH`."""

    phase: Phase
    left: float
    width: float


@dataclass(frozen=True)
class JobEvent:
    """Something that has happened, or is expected, at a time in seconds since the epoch."""

    name: str
    at: int


@dataclass(frozen=True)
class Timeline:
    """The line, its events in their order, and where on the line the present is."""

    segments: tuple[Segment, ...]
    events: tuple[JobEvent, ...]
    now: float


def job_timeline(job: Job, start: StartRange | None, now: float) -> Timeline:
    """The times of a job; the line is empty if its submission is not known."""
    present, submit = int(now), job.submit_time.whole
    eligible = max(job.eligible_time.whole, submit)
    events = [JobEvent("Submitted", submit), JobEvent("Eligible", eligible if eligible > submit else 0)]
    spans: list[tuple[Phase, int, int]] = []
    if job.state.pending:
        spans += [
            (Phase.NOT_ELIGIBLE, submit, min(eligible, present)),
            (Phase.WAITING, min(eligible, present), present),
        ]
        if start is not None and start.earliest is not None and start.latest is not None:
            earliest = max(start.earliest, present)
            spans += [(Phase.WAITING, present, earliest), (Phase.EXPECTED, earliest, max(start.latest, earliest + 1))]
            events += [
                JobEvent("Expected start, earliest", earliest),
                JobEvent("Expected start, latest", max(start.latest, earliest)),
            ]
    elif begin := job.start_time.whole:
        end = job.end_time.whole
        stop = end if job.state.ended else present
        spans += [(Phase.NOT_ELIGIBLE, submit, min(eligible, begin)), (Phase.WAITING, min(eligible, begin), begin)]
        spans += [(Phase.RUNNING, begin, max(stop, begin + 1))]
        events.append(JobEvent("Started", begin))
        if job.state.ended:
            events.append(JobEvent("Ended", end))
        elif present < end < present + _FOREVER:
            spans.append((Phase.REMAINING, present, end))
            events.append(JobEvent("Ends by its time limit", end))
    return _scaled([span for span in spans if span[1] and span[2] > span[1]], events, present)


def _scaled(spans: list[tuple[Phase, int, int]], events: list[JobEvent], present: int) -> Timeline:
    known = tuple(event for event in events if event.at)
    if not spans:
        return Timeline((), known, 0.0)
    first, last = min(span[1] for span in spans), max(span[2] for span in spans)
    scale = WIDTH / max(last - first, 1)
    segments = tuple(
        Segment(phase, round((begin - first) * scale, 1), max(round((end - begin) * scale, 1), 1.0))
        for phase, begin, end in spans
    )
    return Timeline(segments, known, round(min(max(present - first, 0) * scale, WIDTH), 1))
