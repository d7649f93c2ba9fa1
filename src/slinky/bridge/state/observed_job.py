# SPDX-License-Identifier: Apache-2.0
"""What is known about one job of the bridge. Pure."""

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import Enum

from msgspec import structs

from slinky.slurm import JobRecord


class JobKnowledge(Enum):
    """What is known for certain about a job."""

    UNKNOWN = "unknown"
    LIVE = "live"
    MOVED = "moved"  # live, but not on the nodes of its pods: slurmctld forgot that it had started, and started it anew
    OVER = "over"  # ended, or reported as absent by Slurm
    FOREIGN = "foreign"  # the id belongs to a job that this bridge did not submit, so the job of the pods is gone


@dataclass(frozen=True)
class ObservedJob:
    """A job as last observed."""

    knowledge: JobKnowledge
    record: JobRecord | None = None
    stale: bool = False  # the pods request something else than the job, or its signature has a former name
    live_components: bool = False  # the job is over, but one of its components may still be pending or running
    hosts: frozenset[str] = frozenset()  # of a job that runs, as far as they are known
    ended_here: bool = False  # the job is over because this bridge has ended it
    outcome_settled: bool = False  # accounting has the outcome of its pods, or no longer waits for it

    def beside(self, hosts_of_pods: Set[str]) -> "ObservedJob":
        """The job, given the hosts on which its pods run.

        slurmctld forgets the last seconds before a crash. A job that started then is pending again, and may start on
        other hosts, while its pods run where Slurm has nothing for them. Such a job is MOVED; once this bridge has
        ended it, it counts as lost, so that its pods get a new job.
        """
        if hosts_of_pods <= self.hosts or self.record is None:
            return self
        if self.knowledge is JobKnowledge.LIVE and (self.hosts or self.record.state.pending):
            return replace(self, knowledge=JobKnowledge.MOVED)
        is_ours = self.knowledge is JobKnowledge.OVER and self.ended_here
        return replace(self, record=structs.replace(self.record, lost=True)) if is_ours else self
