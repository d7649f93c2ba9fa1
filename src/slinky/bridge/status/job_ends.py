# SPDX-License-Identifier: Apache-2.0
"""What the end of a job means for its pods: the table of Slurm's final job states. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What the end of a job means for its pods. Pods that run are evicted with this reason.

    `deliberate`: a person or a rule ended the job, so pods that never had a node are not submitted again.
    `final`: the same would happen again to a new pod, so owners should not replace the pod.
    `limited`: Slurm or a node failed, so evictions of many pods at once are limited.
    """

    reason: str
    sentence: str
    deliberate: bool = False
    final: bool = False
    limited: bool = False


#: Ends by Slurm's job state.
ENDS: dict[str, JobEnd] = {
    "CANCELLED": JobEnd("SlurmJobCancelled", "was cancelled in Slurm", deliberate=True, final=True),
    "COMPLETED": JobEnd("SlurmJobEnded", "was ended in Slurm", deliberate=True, final=True),
    "DEADLINE": JobEnd("SlurmJobDeadline", "passed its deadline", deliberate=True, final=True),
    "TIMEOUT": JobEnd("SlurmJobTimeout", "reached its time limit", final=True),
    "PREEMPTED": JobEnd("SlurmJobPreempted", "was preempted by another job"),
    "NODE_FAIL": JobEnd("SlurmNodeFailed", "lost a node", limited=True),
    "BOOT_FAIL": JobEnd("SlurmNodeFailed", "ended because its nodes did not boot", limited=True),
    "FAILED": JobEnd("SlurmJobFailed", "failed in Slurm", limited=True),
    "OUT_OF_MEMORY": JobEnd("SlurmJobOutOfMemory", "ran out of memory in Slurm"),
}
LOST = JobEnd("SlurmJobLost", "is unknown to slurmctld and to accounting")
MOVED = JobEnd("SlurmJobMoved", "was started on other nodes by a slurmctld that had forgotten its start")
#: Reasons of ends after which owners should not replace the pod.
FINAL = frozenset(end.reason for end in ENDS.values() if end.final)


def job_end(state: str, *, lost: bool) -> JobEnd:
    """The meaning of the end of a job, by its last state."""
    if lost:
        return LOST
    return ENDS.get(state, JobEnd("SlurmJobEnded", f"ended in Slurm as {state or 'unknown'}"))
