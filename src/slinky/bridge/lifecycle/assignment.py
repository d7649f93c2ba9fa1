# SPDX-License-Identifier: Apache-2.0
"""Slurm's nodes, in Slurm's order, to pods in rank order.

What was assigned before stays, so a repeat after a crash gives the same answer; no place is ever given twice. A
job that has fewer places than pods, or a host that is no Kubernetes node, is a mistake that is told, not worked
around.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import grouping, identity, pod_state
from slinky.slurm import JobRecord


class Misplaced(Exception):  # noqa: N818 -- a finding about a job, judged by its caller
    """The nodes of a job do not suit its pods."""


class Assignment(NamedTuple):
    """Where a pod goes: a node, and the component of its job that was granted it."""

    node: str
    part: JobRecord


def teams(pods: Sequence[WorkloadPod], record: JobRecord, parts: int) -> list[list[WorkloadPod]]:
    """The pods of each component, as the job itself names them. Raises `Misplaced`."""
    if parts == 1:
        return [list(pods)]
    roles = identity.pods_by_component(identity.parse_comment(record.detail.admin_comment if record.detail else ""))
    number = {name: index for index, role in enumerate(roles) for name in role}
    found: list[list[WorkloadPod]] = [[] for _ in range(parts)]
    for pod in pods:
        index = number.get(str(pod.metadata.key), parts)
        if index >= parts:
            raise Misplaced(f"the job does not name {pod.metadata.name}")
        found[index].append(pod)
    return found


def assign(
    pods: Iterable[WorkloadPod], hosts: Sequence[str], nodes: Mapping[str, str], per_node: int = 1
) -> dict[str, str]:
    """The Kubernetes node of each pod, by pod uid. `nodes` maps Slurm hosts to Kubernetes nodes.

    Raises `Misplaced`.
    """
    strange = [host for host in hosts if host not in nodes]
    if strange:
        raise Misplaced(f"Slurm gave {', '.join(strange[:3])}, which is no Kubernetes node")
    ranked = sorted(pods, key=grouping.rank)
    places = [nodes[host] for host in hosts for _ in range(per_node)]
    free = Counter(places)
    found: dict[str, str] = {}
    for pod in ranked:
        node = pod_state.assigned_node(pod)
        if node and free[node] > 0:
            free[node] -= 1
            found[pod.metadata.uid] = node
        elif pod_state.is_bound(pod):
            raise Misplaced(f"pod {pod.metadata.name} runs on {node}, which is not of its job")
    left = _remaining(places, free)
    for pod in ranked:
        if pod.metadata.uid not in found:
            if not left:
                raise Misplaced(f"Slurm gave {len(places)} places for {len(ranked)} pods")
            found[pod.metadata.uid] = left.pop(0)
    return found


def crowding(pods: Sequence[WorkloadPod], hosts: Sequence[str]) -> int:
    """How many pods share a node, told by the pods and hosts alone: for a gang whose options are gone."""
    there = Counter(pod.spec.node_name for pod in pods if pod_state.is_bound(pod))
    return max(1, -(-len(pods) // max(1, len(hosts))), *there.values())


def _remaining(places: Sequence[str], free: Mapping[str, int]) -> list[str]:
    """The free places in Slurm's order."""
    left, open_places = [], dict(free)
    for place in places:
        if open_places[place] > 0:
            open_places[place] -= 1
            left.append(place)
    return left
