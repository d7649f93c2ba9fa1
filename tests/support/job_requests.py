# SPDX-License-Identifier: Apache-2.0
"""Jobs that tests submit to the Slurm of a lab."""

import msgspec

from slinky.slurm import JobRequest, number

#: A job without a process, for hosts that have no slurmd.
EXTERNAL_JOB = JobRequest(
    name="pod",
    partition="ext",
    account="lab",
    flags=["EXTERNAL_JOB"],
    current_working_directory="/tmp",
    tasks=1,
    memory_per_node=number(100),
    time_limit=number(60),
)


def external_job(**fields: object) -> JobRequest:
    """An external job with some fields changed."""
    return msgspec.structs.replace(EXTERNAL_JOB, **fields)
