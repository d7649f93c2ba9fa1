# SPDX-License-Identifier: Apache-2.0
"""What a job requests per node that no host of its partition has. Pure."""

from collections.abc import Collection

from slinky.slurm import Host, JobRequest


def find_excess(request: JobRequest, hosts: Collection[Host]) -> str:
    """A sentence about the first request that exceeds the hosts of the partition; empty if none does."""
    where = f"partition {request.partition}" if request.partition else "the partition"
    if not hosts:
        return f"Slurm has no host in {where}."
    cpus = (request.cpus_per_task or 1) * (request.tasks_per_node or 1)
    memory = (request.memory_per_node.whole or 0) if request.memory_per_node is not None else 0
    largest_cpus, largest_memory = max(host.cpus for host in hosts), max(host.real_memory for host in hosts)
    if cpus > largest_cpus:
        return f"{cpus} CPUs per node are requested; the largest node of {where} has {largest_cpus}."
    if memory > largest_memory:
        return f"{memory} MiB of memory per node are requested; the largest node of {where} has {largest_memory} MiB."
    return ""
