# SPDX-License-Identifier: Apache-2.0
"""Jobs that tests submit to the Slurm of a lab."""

import msgspec

from slinky.lab.slurm.cluster import LabSlurm
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


def sleep_on(slurm: LabSlurm, host: str) -> str:
    """Submit a native job that takes one CPU of a host until it is cancelled; returns its id."""
    command = ["sbatch", "--parsable", "--output=/dev/null", "--nodelist", host, "--ntasks", "1", "--mem", "100"]
    return slurm.exec(*command, user="alice", input="#!/bin/sh\nexec sleep 600\n").strip()
