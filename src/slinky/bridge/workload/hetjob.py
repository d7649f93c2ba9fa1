# SPDX-License-Identifier: Apache-2.0
"""The components of a heterogeneous job as one. Pure.

Slurm gives each component an id and a life of its own: it starts all of them together, and a failing node or the
end of the first ends all, but a component that somebody cancels ends alone. For us the job runs when every part
runs, and is over as soon as one part is.
"""

from collections.abc import Sequence

from msgspec import structs

from slinky.slurm import Job, JobRecord


def component_ids(job: Job | None) -> list[str]:
    """The ids of the other components of a job, in order; none for an ordinary job or a later component."""
    if job is None or not job.het_job_id_set or job.het_job_id.whole != job.job_id:
        return []
    found: list[int] = []
    for piece in job.het_job_id_set.split(","):
        first, _, last = piece.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.extend(range(int(first), int(last or first) + 1))
    return [str(number) for number in sorted(found) if number != job.job_id]


def merge_components(records: Sequence[JobRecord]) -> JobRecord:
    """One record for all components: the first one's identity, the state of the least fortunate."""
    leader = records[0]
    if ended := next((record for record in records if record.over), None):
        return structs.replace(leader, state=ended.state, lost=ended.lost, outcome=ended.outcome)
    lagging = next((record for record in records if not record.state.ready), None)
    if lagging is not None:
        return structs.replace(leader, state=lagging.state, detail=_blamed(leader, records), resources=None)
    granted = [record.resources for record in records]
    whole = None if None in granted else tuple(grant for part in granted for grant in part or ())
    return structs.replace(leader, resources=whole)


def _blamed(leader: JobRecord, records: Sequence[JobRecord]) -> Job | None:
    """The first component's account of itself, with the reason of the first that gives one."""
    if leader.detail is None:
        return None
    told = (record.detail.state_reason for record in records if record.detail is not None)
    reason = next((word for word in told if word not in {"", "None"}), leader.detail.state_reason)
    return structs.replace(leader.detail, state_reason=reason)
