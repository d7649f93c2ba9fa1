# SPDX-License-Identifier: Apache-2.0
"""A rejected job is told what is too much."""

import pytest

from slinky.bridge.feasibility.job_size import find_excess
from slinky.slurm import Host, JobRequest, number

HOSTS = [Host("a", cpus=2, real_memory=1024), Host("b", cpus=1, real_memory=4096)]


@pytest.mark.parametrize(
    ("request_", "excess"),
    [
        (
            JobRequest(cpus_per_task=3, partition="p"),
            "3 CPUs per node are requested; the largest node of partition p has 2.",
        ),
        (
            JobRequest(cpus_per_task=1, tasks_per_node=4),
            "4 CPUs per node are requested; the largest node of the partition has 2.",
        ),
        (
            JobRequest(memory_per_node=number(5000)),
            "5000 MiB of memory per node are requested; the largest node of the partition has 4096 MiB.",
        ),
        (JobRequest(nodes="3", cpus_per_task=2), ""),
    ],
)
def test_the_first_request_that_exceeds_every_host_is_named(request_: JobRequest, excess: str) -> None:
    assert find_excess(request_, HOSTS) == excess


def test_a_partition_without_hosts_is_named() -> None:
    assert find_excess(JobRequest(partition="p"), []) == "Slurm has no host in partition p."
