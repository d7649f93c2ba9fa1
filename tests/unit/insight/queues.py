# SPDX-License-Identifier: Apache-2.0
"""Small clusters for tests of explanations and forecasts."""

from typing import Any

from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host, Job, number
from slinky.slurm.model.partitions import Partition, PartitionMode

NOW = 1_800_000_000.0


def job(job_id: int, *, nodes: int = 1, cpus: int = 1, gpus: int = 0, minutes: int = 60, **fields: Any) -> Job:
    """A pending job of alice in the partition `work`; `cpus` and `gpus` are per node."""
    gres = f",gres/gpu={gpus * nodes}" if gpus else ""
    defaults: dict[str, Any] = {
        "name": f"run-{job_id}",
        "user_name": "alice",
        "account": "lab",
        "partition": "work",
        "qos": "normal",
        "job_state": ("PENDING",),
        "state_reason": "Resources",
        "node_count": number(nodes),
        "cpus": number(cpus * nodes),
        "tres_req_str": f"cpu={cpus * nodes},mem={100 * nodes}M,node={nodes},billing={cpus * nodes}{gres}",
        "priority": number(1000 - job_id),
        "submit_time": number(NOW - 600),
        "eligible_time": number(NOW - 600),
        "time_limit": number(minutes),
    }
    return Job(job_id=job_id, **(defaults | fields))


def running(job_id: int, hosts: str, *, since: int = 600, **fields: Any) -> Job:
    """A job that runs on these nodes."""
    made = job(job_id, **fields)
    end = NOW - since + made.time_limit.whole * 60
    text = {"job_state": ("RUNNING",), "state_reason": "None", "nodes": hosts, "tres_alloc_str": made.tres_req_str}
    times = {"start_time": number(NOW - since), "end_time": number(end)}
    return Job(**({name: getattr(made, name) for name in made.__struct_fields__} | text | times))


def host(name: str, *, words: tuple[str, ...] = ("IDLE",), **fields: Any) -> Host:
    """A node with 16 CPUs, 64,000 MB and 8 GPUs."""
    defaults: dict[str, Any] = {"cpus": 16, "effective_cpus": 16, "real_memory": 64000, "gres": "gpu:h100:8"}
    return Host(name=name, words=words, partitions=("work",), **(defaults | fields))


def cluster(*jobs: Job, hosts: tuple[Host, ...] | int = 4, **fields: Any) -> QueueSnapshot:
    """A cluster with the partition `work`; `hosts` are idle nodes if a number."""
    members = tuple(host(f"n{index}") for index in range(1, hosts + 1)) if isinstance(hosts, int) else hosts
    partition = Partition(name="work", partition=PartitionMode(state=("UP",)))
    defaults: dict[str, Any] = {"now": NOW, "jobs": jobs, "hosts": members, "partitions": (partition,)}
    return QueueSnapshot(**(defaults | fields))
