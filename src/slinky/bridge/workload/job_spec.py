# SPDX-License-Identifier: Apache-2.0
"""Pods and annotations to one typed job request, or to one heterogeneous job where pods need different things.

Defaults, then what pods and grouping object say, then options: later ones win. The result asks for nothing that a
node of the partition could not be asked for by name: nodes are excluded, never required, because a required node
that vanishes kills the job. Pods that need the same and can use the same nodes are one role; each role becomes a
component of the job, and Slurm starts all components together or none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import ANY_GPU, CPUS, GresKind
from slinky.bridge.state.host_ports import host_ports_of
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import annotations, grouping, pod_resources, policy
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.kube import Quantity
from slinky.slurm import JobRequest, number

WORKING_DIRECTORY = "/tmp"  # noqa: S108 -- nothing runs there; slurmctld only wants a path
#: As many components as Slurm gives one heterogeneous job.
ROLES_MAX = 128
#: What belongs to the job as a whole, and would be taken once per component.
PER_JOB_FIELDS = ("licenses",)

Excluded = Mapping[str, frozenset[str]]
"""The hosts that a pod cannot use, by its uid."""


@dataclass(frozen=True)
class JobContext:
    """What is the same for every workload."""

    settings: BridgeSettings
    catalog: Catalog = field(default_factory=Catalog)
    claimed: Mapping[str, Mapping[GresKind, int]] = field(default_factory=dict)  # devices by pod uid
    shared: Mapping[GresKind, int] = field(default_factory=dict)  # devices that all pods have together
    threads: int = 1  # of one core, where CPUs are devices


@dataclass(frozen=True)
class PodRole:
    """Pods that need the same, and what each of their nodes is asked for."""

    pods: tuple[WorkloadPod, ...]
    asked: Mapping[str, Any]
    excluded: Collection[str]


@dataclass(frozen=True)
class JobSpec:
    """What a unit wants of Slurm: one request per role, the pods of each, and how many of them go on a node."""

    requests: tuple[JobRequest, ...]
    roles: tuple[tuple[WorkloadPod, ...], ...]
    pods_per_node: int = 1
    #: Pods, by uid, to whom it matters which cores and devices Slurm grants, not only how many.
    pods_with_devices: frozenset[str] = frozenset()

    @property
    def request(self) -> JobRequest:
        """The job, or the first component of it."""
        return self.requests[0]

    @property
    def needs_device_ids(self) -> bool:
        """Which cores and devices Slurm grants matters."""
        return bool(self.pods_with_devices)

    def split_by_role(self) -> list["JobSpec"]:
        """What each role would ask for on its own."""
        return [
            JobSpec(
                (request,), (role,), self.pods_per_node, self.pods_with_devices & {pod.metadata.uid for pod in role}
            )
            for request, role in zip(self.requests, self.roles, strict=True)
        ]

    def is_for(self, pods: Iterable[WorkloadPod]) -> bool:
        """Whether it is the wish of exactly these pods."""
        return {pod.metadata.uid for role in self.roles for pod in role} == {pod.metadata.uid for pod in pods}


def build_job_spec(
    unit: Workload,
    root: WorkloadRoot,
    pods: Sequence[WorkloadPod],
    world: JobContext,
    *,
    excluded: Excluded | None = None,
) -> JobSpec:
    """The job that these pods need. Raises `OptionError` for options that cannot be used."""
    settings = world.settings
    allowed = policy.apply_policy(root.annotations, pods[0], settings.policy, settings.priority_classes)
    options = annotations.parse_options(allowed)
    per_node = _pods_per_node(unit, options, pods)
    _contradicts(options, world)
    chosen = annotations.job_fields(options)
    roles = _roles(root, pods, world, per_node, chosen, excluded or {})
    sizes = [-(-len(role.pods) // per_node) for role in roles]
    chosen = _consistent(chosen, sum(sizes))
    common = JobRequest(
        name=root.name or pods[0].metadata.name,
        partition=settings.partition or None,
        flags=("EXTERNAL_JOB",),
        current_working_directory=WORKING_DIRECTORY,
        mcs_label=settings.mcs_label or None,
        tasks_per_node=per_node,
        shared=("none",),
        time_limit=_time_limit(root, pods),
    )
    requests = [_component(common, role, nodes, per_node, chosen) for role, nodes in zip(roles, sizes, strict=True)]
    rest = [msgspec.structs.replace(request, **dict.fromkeys(PER_JOB_FIELDS)) for request in requests[1:]]
    uids = (pod.metadata.uid for pod in pods)
    choosy = frozenset(uid for uid in uids if world.shared or world.claimed.get(uid))
    return JobSpec((requests[0], *rest), tuple(role.pods for role in roles), per_node, choosy)


def _together(
    root: WorkloadRoot, pods: Sequence[WorkloadPod], world: JobContext, per_node: int, excluded: Excluded
) -> PodRole:
    """One role for pods that share a claim and so a node, which is sized for the largest of them. Raises
    `OptionError`.
    """
    if len(pods) > per_node:
        raise OptionError(
            f"pods that share a resource claim must be on one node; set pods-per-node to {len(pods)}, "
            "or give each pod its own claim by a template"
        )
    left_out = frozenset().union(*(excluded.get(pod.metadata.uid, frozenset()) for pod in pods))
    return PodRole(tuple(pods), _asked(root, pods, world, per_node), left_out)


def _contradicts(options: Mapping[str, Any], world: JobContext) -> None:
    """Options that would take the place of what claims need."""
    kinds = {kind for own in (*world.claimed.values(), world.shared) for kind in own}
    if "gres" in options and kinds - {CPUS}:
        raise OptionError("gres and devices that pods ask for by class or claim exclude each other")
    if "cpu-per-task" in options and CPUS in kinds:
        raise OptionError("cpu-per-task and CPUs that pods ask for by class or claim exclude each other")


def _component(common: JobRequest, role: PodRole, nodes: int, per_node: int, chosen: Mapping[str, Any]) -> JobRequest:
    """What one role asks for."""
    size = {"nodes": str(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes}
    tasks = len(role.pods) if per_node > 1 else None
    excluded = tuple(sorted(role.excluded)) or None
    given = {**role.asked, "tasks": tasks, "excluded_nodes": excluded, **size, **chosen}
    return _frugal(msgspec.structs.replace(common, **given))


def _roles(
    root: WorkloadRoot,
    pods: Sequence[WorkloadPod],
    world: JobContext,
    per_node: int,
    chosen: Mapping[str, Any],
    excluded: Excluded,
) -> list[PodRole]:
    """Pods by what they need, in the order of their first rank. What an option decides for all makes no roles."""
    ranked = sorted(pods, key=grouping.rank)
    if world.shared:
        return [_together(root, ranked, world, per_node, excluded)]
    found: dict[tuple[object, ...], tuple[dict[str, Any], list[WorkloadPod]]] = {}
    for pod in ranked:
        asked = _asked(root, [pod], world, per_node)
        key = tuple(sorted((name, value) for name, value in asked.items() if name not in chosen))
        found.setdefault((key, excluded.get(pod.metadata.uid)), (asked, []))[1].append(pod)
    if len(found) > ROLES_MAX:
        raise OptionError(f"its pods have {len(found)} different shapes; Slurm takes {ROLES_MAX} in one job")
    return [
        PodRole(tuple(alike), asked, excluded.get(alike[0].metadata.uid, frozenset()))
        for asked, alike in found.values()
    ]


def _pods_per_node(unit: Workload, options: Mapping[str, Any], pods: Sequence[WorkloadPod]) -> int:
    wanted: int = options.get("pods-per-node", 1)
    if wanted > 1 and unit.is_single_pod:
        raise OptionError("pods-per-node needs a gang: a PodGroup, a LeaderWorkerSet, or the option gang")
    if wanted > 1 and (crowded := next(filter(host_ports_of, pods), None)):
        port = host_ports_of(crowded)[0]
        raise OptionError(f"pods-per-node and host port {port} of {crowded.metadata.name} exclude each other")
    return wanted


def _asked(root: WorkloadRoot, pods: Sequence[WorkloadPod], world: JobContext, per_node: int) -> dict[str, Any]:
    """What the pods ask for: every node is sized for the largest of them, as many times as pods share it."""
    need = {
        name: Quantity.parse(text) for name, text in root.min_resources.items()
    } | pod_resources.largest_requirements(pods)
    devices = _devices(pods, world)
    # CPUs that are devices come in whole cores.
    cpus = max(need.get("cpu", pod_resources.ZERO).whole(), -(-devices.pop(CPUS, 0) // world.threads) * world.threads)
    memory = need.get("memory", pod_resources.ZERO).mebi() * per_node
    found: dict[str, Any] = {}
    if cpus:
        found["cpus_per_task"] = cpus
    if memory:
        found["memory_per_node"] = number(memory)
    counts = {kind: count * per_node for kind, count in devices.items()}
    counts |= {kind: counts.get(kind, 0) + count for kind, count in world.shared.items()}
    if counts:
        found["tres_per_node"] = ",".join(f"gres/{kind}:{count}" for kind, count in sorted(counts.items()))
    return found


def _devices(pods: Sequence[WorkloadPod], world: JobContext) -> dict[GresKind, int]:
    """Devices that the hungriest pod needs, as resources of a device plugin or by claims."""
    found: dict[GresKind, int] = {}
    for pod in pods:
        own = dict(world.claimed.get(pod.metadata.uid, {}))
        if plain := pod_resources.requested_plugin_gpus(pod_resources.required_resources(pod), world.catalog):
            own[ANY_GPU] = own.get(ANY_GPU, 0) + plain
        for kind, count in own.items():
            found[kind] = max(found.get(kind, 0), count)
    return found


def _consistent(chosen: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Bounds on nodes can only restate how many pods there are; a contradiction is a mistake worth telling."""
    low, high = chosen.pop("minimum_nodes", nodes), chosen.pop("maximum_nodes", nodes)
    if low > nodes or high < nodes:
        raise OptionError(
            f"min-nodes {low} and max-nodes {high} leave no room for the {nodes} nodes that the pods need"
        )
    return chosen


def _frugal(request: JobRequest) -> JobRequest:
    """A shared job that names no memory would be given all of a node's: a pod that asks for none gets the least."""
    if request.shared or request.memory_per_node is not None:
        return request
    return msgspec.structs.replace(request, memory_per_node=number(1))


def _time_limit(root: WorkloadRoot, pods: Sequence[WorkloadPod]) -> Any:
    given = [root.deadline, *(pod.spec.active_deadline_seconds for pod in pods)]
    seconds = [value for value in given if value and value > 0]
    return number(-(-min(seconds) // 60)) if seconds else None
