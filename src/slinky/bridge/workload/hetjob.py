# SPDX-License-Identifier: Apache-2.0
"""Heterogeneous jobs: merges the records of the components into one record. Pure.

Slurm gives each component its own id and state. It starts all components together, and the failure of a node or the
end of the first component ends all of them, but a later component can be cancelled alone. The bridge treats the job
as running when every component runs, and as over as soon as one component is over.
"""

from collections.abc import Sequence

from msgspec import structs

from slinky.bounds import COMPONENTS_MAX, JOB_ID_MAX, parse_integer
from slinky.slurm import Job, JobRecord


def component_ids(job: Job | None) -> list[str]:
    """The ids of the later components of a job, in order; empty for an ordinary job and for a later component."""
    if job is None or not job.het_job_id_set or job.het_job_id.whole != job.job_id:
        return []
    ids: list[int] = []
    for span in job.het_job_id_set.split(","):
        first, _, last = span.partition("-")
        low, high = (parse_integer(text, 1, JOB_ID_MAX) for text in (first, last or first))
        if low is not None and high is not None:
            ids.extend(range(low, min(high, low + COMPONENTS_MAX - 1) + 1))
    return [str(job_id) for job_id in sorted(ids) if job_id != job.job_id]


def merge_components(records: Sequence[JobRecord]) -> JobRecord:
    """One record for all components: the ids of the first, the state of the one that is over or not yet running."""
    leader = records[0]
    if ended := next((record for record in records if record.over), None):
        return structs.replace(leader, state=ended.state, lost=ended.lost, outcome=ended.outcome)
    pending = next((record for record in records if not record.state.ready), None)
    if pending is not None:
        return structs.replace(leader, state=pending.state, detail=_with_reason(leader, records), resources=None)
    resources = [record.resources for record in records]
    merged = None if None in resources else tuple(node for component in resources for node in component or ())
    return structs.replace(leader, resources=merged)


def _with_reason(leader: JobRecord, records: Sequence[JobRecord]) -> Job | None:
    """The details of the first component, with the reason of the first component that has one."""
    if leader.detail is None:
        return None
    reasons = (record.detail.state_reason for record in records if record.detail is not None)
    reason = next((reason for reason in reasons if reason not in {"", "None"}), leader.detail.state_reason)
    return structs.replace(leader.detail, state_reason=reason)
