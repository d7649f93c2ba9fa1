# SPDX-License-Identifier: Apache-2.0
"""What would start earlier or later after a change that the address describes. Pure.

Two simulations cost more than any other page, so the page answers for queues up to `JOBS_MAX` pending jobs; the command
`slinky whatif` has no such limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slinky.bounds import INT32_MAX, is_job_id, parse_integer
from slinky.insight.forecast.what_if import QueueChange, Shift, WhatIfError, what_if
from slinky.insight.plain_text import duration
from slinky.insight.queue_snapshot import host_names
from slinky.web.page_data import PageData
from slinky.web.views.job_row import shown_name, shown_text
from slinky.web.views.paging import query_text

#: Pending jobs up to which the page simulates.
JOBS_MAX = 500
#: Rows of a table of jobs.
ROWS_MAX = 200
#: The fields of the form, which are also the names of the query.
FIELDS = ("add", "count", "drain", "job", "limit", "qos", "partition")


@dataclass(frozen=True)
class ShiftRow:
    """A job that would start at another time."""

    label: str
    name: str
    user: str
    before: str
    after: str
    change: str


@dataclass(frozen=True)
class WhatIfView:
    """What the page of a change shows; `problem` says why there is no answer."""

    chosen: Mapping[str, str]
    partitions: tuple[str, ...]
    qos: tuple[str, ...]
    asked: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()
    earlier: tuple[ShiftRow, ...] = ()
    later: tuple[ShiftRow, ...] = ()
    unchanged: int = 0


def what_if_view(data: PageData, query: Mapping[str, str]) -> WhatIfView:
    """The answer for the change that a query describes; without a change only the form."""
    chosen = {name: query_text(query, name) for name in FIELDS}
    partitions = tuple(map(shown_name, sorted(data.snapshot.partitions_by_name)))
    qos = tuple(sorted(shown_name(entry.name) for entry in data.snapshot.qos))
    try:
        change = parse_change(chosen)
        if change is None:
            return WhatIfView(chosen, partitions, qos)
        _check(data, change)
        # Every job counts, also those that this viewer may not see; only the others are shown.
        result = what_if(data.whole, change)
    except WhatIfError as error:
        return WhatIfView(chosen, partitions, qos, asked=True, problem=shown_text(f"{error}."))
    seen = data.snapshot.jobs_by_id
    return WhatIfView(
        chosen,
        partitions,
        qos,
        asked=True,
        notes=tuple(map(shown_text, result.notes)),
        earlier=tuple(_row(shift, data.now) for shift in result.earlier if shift.job_id in seen)[:ROWS_MAX],
        later=tuple(_row(shift, data.now) for shift in result.later if shift.job_id in seen)[:ROWS_MAX],
        unchanged=result.unchanged,
    )


def parse_change(chosen: Mapping[str, str]) -> QueueChange | None:
    """The change that the form describes; None if it describes none. Raises `WhatIfError`."""
    added = ((chosen["add"], _number(chosen["count"] or "1", "nodes")),) if chosen["add"] else ()
    drained = host_names(chosen["drain"]) if chosen["drain"] else ()
    seconds = _number(chosen["limit"], "minutes") * 60 if chosen["limit"] else None
    of_job = chosen["qos"] or chosen["partition"] or seconds is not None
    if of_job and not chosen["job"]:
        raise WhatIfError("name the job that has another QOS, partition or time limit")
    if chosen["job"] and not is_job_id(chosen["job"]):
        raise WhatIfError(f"{shown_name(chosen['job'])} is not the id of a job")
    if chosen["job"] and not of_job:
        raise WhatIfError("name another QOS, partition or time limit of the job")
    if not added and not drained and not of_job:
        return None
    number = int(chosen["job"]) if chosen["job"] else None
    return QueueChange(added, drained, number, chosen["qos"], chosen["partition"], seconds)


def _number(text: str, noun: str) -> int:
    number = parse_integer(text, 1, INT32_MAX)
    if number is None:
        raise WhatIfError(f"{shown_name(text)} is not a number of {noun}")
    return number


def _check(data: PageData, change: QueueChange) -> None:
    if len(data.whole.pending) > JOBS_MAX:
        raise WhatIfError(f"more than {JOBS_MAX} jobs are pending; use the command `slinky whatif`")
    if not data.snapshot.hosts and data.whole.hosts:
        raise WhatIfError("PrivateData hides the nodes")
    if change.job_id is not None and change.job_id not in data.snapshot.jobs_by_id:
        raise WhatIfError(f"there is no job {change.job_id} that you may see")


def _row(shift: Shift, now: float) -> ShiftRow:
    return ShiftRow(
        label=str(shift.job_id),
        name=shown_name(shift.name),
        user=shown_name(shift.user),
        before=_when(shift.before, now),
        after=_when(shift.after, now),
        change=f"{duration(abs(shift.seconds))} {'earlier' if shift.seconds < 0 else 'later'}" if shift.seconds else "",
    )


def _when(start: int | None, now: float) -> str:
    return "not known" if start is None else f"in {duration(start - now)}" if start - now >= 1 else "now"
