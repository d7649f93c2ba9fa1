# SPDX-License-Identifier: Apache-2.0
"""Assigns the hosts of a job, in Slurm's order, to its pods in rank order. Pure.

Earlier assignments stay, so a repetition after a crash gives the same result, and no slot is assigned twice. A job
with fewer slots than pods, or with a host that is no Kubernetes node, raises `UnsuitableNodes`.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import grouping, identity, pod_state
from slinky.slurm import JobRecord


class UnsuitableNodes(Exception):  # noqa: N818 -- a property of a job; the caller decides what follows from it
    """The pods of a job cannot run on its nodes.

    The next submissions exclude `host` for a while, if it is given. An error about a pod that is being prepared needs
    no host: that of the pod counts.
    """

    def __init__(self, problem: str, host: str = "") -> None:
        super().__init__(problem)
        self.host = host


class Assignment(NamedTuple):
    """The node of a pod, and the component of the job that has this node."""

    node: str
    component: JobRecord


def pods_by_component(pods: Sequence[WorkloadPod], record: JobRecord, components: int) -> list[list[WorkloadPod]]:
    """The pods of each component, as the admin comment of the job lists them. Raises `UnsuitableNodes`."""
    if components == 1:
        return [list(pods)]
    roles = identity.pods_by_component(identity.parse_comment(record.detail.admin_comment if record.detail else ""))
    index_of = {name: index for index, role in enumerate(roles) for name in role}
    groups: list[list[WorkloadPod]] = [[] for _ in range(components)]
    for pod in pods:
        index = index_of.get(str(pod.metadata.key), components)
        if index >= components:
            raise UnsuitableNodes(f"the job does not list pod {pod.metadata.name}")
        groups[index].append(pod)
    return groups


def assign(
    pods: Iterable[WorkloadPod], hosts: Sequence[str], nodes: Mapping[str, str], per_node: int = 1
) -> dict[str, str]:
    """The Kubernetes node of each pod, by pod uid. `nodes` maps Slurm hosts to Kubernetes nodes.

    Raises `UnsuitableNodes`.
    """
    unknown = [host for host in hosts if host not in nodes]
    if unknown:
        raise UnsuitableNodes(f"Slurm allocated {', '.join(unknown[:3])}, which is no Kubernetes node", unknown[0])
    ranked = sorted(pods, key=grouping.rank)
    slots = [nodes[host] for host in hosts for _ in range(per_node)]
    free = Counter(slots)
    assigned: dict[str, str] = {}
    for pod in ranked:
        node = pod_state.assigned_node(pod)
        if node and free[node] > 0:
            free[node] -= 1
            assigned[pod.metadata.uid] = node
        elif pod_state.is_bound(pod):
            raise UnsuitableNodes(f"pod {pod.metadata.name} runs on {node}, which is not a node of its job")
    remaining = _remaining_slots(slots, free)
    for pod in ranked:
        if pod.metadata.uid not in assigned:
            if not remaining:
                raise UnsuitableNodes(f"Slurm allocated nodes for {len(slots)} pods, but there are {len(ranked)} pods")
            assigned[pod.metadata.uid] = remaining.popleft()
    return assigned


def infer_pods_per_node(pods: Sequence[WorkloadPod], hosts: Sequence[str]) -> int:
    """How many pods share a node, inferred from pods and hosts: for a gang whose options are no longer known."""
    bound = Counter(pod.spec.node_name for pod in pods if pod_state.is_bound(pod))
    return max(1, -(-len(pods) // max(1, len(hosts))), *bound.values())


def _remaining_slots(slots: Sequence[str], free: Mapping[str, int]) -> deque[str]:
    """The free slots in Slurm's order."""
    remaining, counts = deque[str](), dict(free)
    for node in slots:
        if counts[node] > 0:
            counts[node] -= 1
            remaining.append(node)
    return remaining
