# SPDX-License-Identifier: Apache-2.0
"""What is known about one job of the bridge. Pure."""

from dataclasses import dataclass
from enum import Enum

from slinky.slurm import JobRecord


class JobKnowledge(Enum):
    """What is known for certain about a job."""

    UNKNOWN = "unknown"
    LIVE = "live"
    OVER = "over"  # ended, or reported as absent by Slurm
    FOREIGN = "foreign"  # the id belongs to a job that this bridge did not submit, so the job of the pods is gone


@dataclass(frozen=True)
class ObservedJob:
    """A job as last observed."""

    knowledge: JobKnowledge
    record: JobRecord | None = None
    stale: bool = False  # the pods request something else than the job, or its signature has a former name
    live_components: bool = False  # the job is over, but one of its components may still be pending or running
    outcome_settled: bool = False  # accounting has the outcome of its pods, or no longer waits for it
