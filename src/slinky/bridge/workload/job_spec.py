# SPDX-License-Identifier: Apache-2.0
"""Builds the job request of a workload, or the requests of a heterogeneous job if its pods differ. Pure.

Defaults come first, then the requests of the pods and of the grouping object, then the options; later ones override
earlier ones. Unsuitable nodes are excluded; nodes are never required by name, because a job is lost when a required
node is removed. Pods with the same resources and the same excluded nodes form a role. Each role becomes a component of
the job, and Slurm starts all components together.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from slinky import bounds
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import ANY_GPU, CPUS, GresKind
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import annotations, grouping, pod_resources, policy
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.bridge.workload.identity import EXTERNAL_FLAG
from slinky.kube import Quantity
from slinky.slurm import JobRequest, number

WORKING_DIRECTORY = "/tmp"  # noqa: S108 -- nothing runs there; slurmctld requires a path
#: Workloads that the option `gang` makes.
GANG_KINDS = frozenset({"Job", "JobSet"})
ROLES_MAX = bounds.COMPONENTS_MAX
#: Fields of the whole job. Only the first component has them, otherwise Slurm would count them once per component.
PER_JOB_FIELDS = ("licenses",)

Excluded = Mapping[str, frozenset[str]]
"""The hosts that a pod cannot use, by pod uid."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """The configuration, the device classes, and the devices that the pods of a workload claim."""

    settings: BridgeSettings
    catalog: Catalog = field(default_factory=Catalog)
    devices_by_pod: Mapping[str, Mapping[GresKind, int]] = field(default_factory=dict)  # by pod uid
    shared_devices: Mapping[GresKind, int] = field(default_factory=dict)  # of claims that all pods share
    threads_per_core: int = 1  # of CPUs that are devices


@dataclass(frozen=True, slots=True)
class PodRole:
    """Pods with the same requirements, and the job fields that request these on each node."""

    pods: tuple[WorkloadPod, ...]
    resources: Mapping[str, Any]
    excluded: Collection[str]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The job of a workload: one request and the pods of each role, and the number of pods on a node."""

    requests: tuple[JobRequest, ...]
    roles: tuple[tuple[WorkloadPod, ...], ...]
    pods_per_node: int = 1
    #: The uids of pods with device claims, which need the ids of the cores and devices that Slurm allocates.
    pods_with_devices: frozenset[str] = frozenset()
    #: Sentences about options that have no effect or an old name.
    notes: tuple[str, ...] = ()

    @property
    def request(self) -> JobRequest:
        """The request of the job, or of its first component."""
        return self.requests[0]

    @property
    def needs_device_ids(self) -> bool:
        """Whether the ids of the allocated cores and devices are needed, not only their number."""
        return bool(self.pods_with_devices)

    def split_by_role(self) -> list["JobSpec"]:
        """One job spec for each role."""
        return [
            JobSpec(
                (request,), (role,), self.pods_per_node, self.pods_with_devices & {pod.metadata.uid for pod in role}
            )
            for request, role in zip(self.requests, self.roles, strict=True)
        ]

    def is_for(self, pods: Iterable[WorkloadPod]) -> bool:
        """Whether the job spec was built for exactly these pods."""
        return {pod.metadata.uid for role in self.roles for pod in role} == {pod.metadata.uid for pod in pods}


def build_job_spec(
    workload: Workload,
    root: WorkloadRoot,
    pods: Sequence[WorkloadPod],
    context: JobContext,
    *,
    excluded: Excluded | None = None,
) -> JobSpec:
    """The job for these pods. Raises `OptionError`."""
    settings = context.settings
    allowed = policy.apply_to_pods(root.annotations, pods, settings.policy, settings.priority_classes)
    options = annotations.parse_options(allowed)
    if problem := grouping.find_invalid_number(pods):
        raise OptionError(problem)
    per_node = _pods_per_node(workload, options, pods)
    _check_device_options(options, context)
    fields = annotations.job_fields(options)
    roles = _roles(root, pods, context, per_node, fields, excluded or {})
    node_counts = [-(-len(role.pods) // per_node) for role in roles]
    fields = _check_node_limits(fields, sum(node_counts))
    common = JobRequest(
        name=root.name or pods[0].metadata.name,
        partition=settings.partition or None,
        flags=(EXTERNAL_FLAG,),
        current_working_directory=WORKING_DIRECTORY,
        mcs_label=settings.mcs_label or None,
        tasks_per_node=per_node,
        shared=("none",),
        time_limit=_time_limit(root, pods),
    )
    requests = [
        _component(common, role, nodes, per_node, fields) for role, nodes in zip(roles, node_counts, strict=True)
    ]
    later = [msgspec.structs.replace(request, **dict.fromkeys(PER_JOB_FIELDS)) for request in requests[1:]]
    uids = (pod.metadata.uid for pod in pods)
    with_devices = frozenset(uid for uid in uids if context.shared_devices or context.devices_by_pod.get(uid))
    notes = (*root.notes, *_unused_options(workload, root, allowed))
    return JobSpec((requests[0], *later), tuple(role.pods for role in roles), per_node, with_devices, notes)


def _unused_options(workload: Workload, root: WorkloadRoot, allowed: Mapping[str, str]) -> list[str]:
    """A sentence for each option that the policy overrides, and for an option `gang` that nothing reads."""
    used = annotations.option_values(allowed)
    notes = [
        f"the option {name} has no effect ({value[:80]!r}), because the policy sets it to {used[name]!r}"
        for name, value in annotations.option_values(root.annotations).items()
        if used.get(name, value) != value
    ]
    if used.get("gang", "").strip().lower() == "true" and workload.kind not in GANG_KINDS:
        reason = "only a batch Job or a JobSet can have it"
        if not workload.is_single_pod:
            reason = f"{workload.kind.removeprefix('Native')} {workload.name} groups the pods"
        notes.append(f"the option gang has no effect, because {reason}")
    return notes


def _check_device_options(options: Mapping[str, Any], context: JobContext) -> None:
    """Raises `OptionError` if an option would replace resources that claims need."""
    kinds = {kind for devices in (*context.devices_by_pod.values(), context.shared_devices) for kind in devices}
    if "gres" in options and kinds - {CPUS}:
        raise OptionError("the option gres cannot be combined with devices from device classes or resource claims")
    if "cpu-per-task" in options and CPUS in kinds:
        raise OptionError("the option cpu-per-task cannot be combined with CPUs from device classes or resource claims")


def _component(common: JobRequest, role: PodRole, nodes: int, per_node: int, fields: Mapping[str, Any]) -> JobRequest:
    """The request of one role."""
    size = {"nodes": str(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes}
    tasks = len(role.pods) if per_node > 1 else None
    excluded = tuple(sorted(role.excluded)) or None
    values = {**role.resources, "tasks": tasks, "excluded_nodes": excluded, **size, **fields}
    return _limit_shared_memory(msgspec.structs.replace(common, **values))


def _roles(
    root: WorkloadRoot,
    pods: Sequence[WorkloadPod],
    context: JobContext,
    per_node: int,
    fields: Mapping[str, Any],
    excluded: Excluded,
) -> list[PodRole]:
    """The pods by their requirements, in the order of their first rank. Fields that an option sets are not compared."""
    ranked = sorted(pods, key=grouping.rank)
    if context.shared_devices:
        return [_shared_claim_role(root, ranked, context, per_node, excluded)]
    roles: dict[tuple[object, ...], tuple[dict[str, Any], list[WorkloadPod]]] = {}
    previous: WorkloadPod | None = None
    for pod in ranked:
        if previous is None or not _needs_the_same(previous, pod, context):
            resources = _node_resources(root, [pod], context, per_node)
            key = tuple(sorted((name, value) for name, value in resources.items() if name not in fields))
        previous = pod
        roles.setdefault((key, excluded.get(pod.metadata.uid)), (resources, []))[1].append(pod)
    if len(roles) > ROLES_MAX:
        raise OptionError(
            f"the pods have {len(roles)} different requirements; a heterogeneous job has at most {ROLES_MAX} components"
        )
    return [
        PodRole(tuple(members), resources, excluded.get(members[0].metadata.uid, frozenset()))
        for resources, members in roles.values()
    ]


def _needs_the_same(pod: WorkloadPod, other: WorkloadPod, context: JobContext) -> bool:
    """Whether two pods need the same resources. Those of one template do, and comparing costs less than computing."""
    one, two, devices = pod.spec, other.spec, context.devices_by_pod
    return (
        one.containers == two.containers
        and one.init_containers == two.init_containers
        and one.resources == two.resources
        and one.overhead == two.overhead
        and devices.get(pod.metadata.uid) == devices.get(other.metadata.uid)
    )


def _shared_claim_role(
    root: WorkloadRoot, pods: Sequence[WorkloadPod], context: JobContext, per_node: int, excluded: Excluded
) -> PodRole:
    """One role for pods that share a claim and therefore a node. Raises `OptionError`."""
    if len(pods) > per_node:
        raise OptionError(
            f"pods that share a resource claim must be on one node; set pods-per-node to {len(pods)}, "
            "or use a template to give each pod its own claim"
        )
    hosts = frozenset().union(*(excluded.get(pod.metadata.uid, frozenset()) for pod in pods))
    return PodRole(tuple(pods), _node_resources(root, pods, context, per_node), hosts)


def _pods_per_node(workload: Workload, options: Mapping[str, Any], pods: Sequence[WorkloadPod]) -> int:
    per_node: int = options.get("pods-per-node", 1)
    if per_node > 1 and workload.is_single_pod:
        raise OptionError("pods-per-node requires a gang: a PodGroup, a LeaderWorkerSet, or the option gang")
    if per_node > 1 and (with_port := next(filter(host_ports_of, pods), None)):
        port = host_ports_of(with_port)[0]
        raise OptionError(f"pods-per-node cannot be combined with host port {port} of pod {with_port.metadata.name}")
    return per_node


def _node_resources(
    root: WorkloadRoot, pods: Sequence[WorkloadPod], context: JobContext, per_node: int
) -> dict[str, Any]:
    """The job fields for the resources of a node, which fit `per_node` pods of the size of the largest one."""
    totals = _min_resources(root)
    totals |= pod_resources.largest_requirements(pods)
    devices = _device_counts(pods, context)
    # CPUs that are devices are allocated as whole cores.
    device_cpus = -(-devices.pop(CPUS, 0) // context.threads_per_core) * context.threads_per_core
    cpus = max(totals.get("cpu", pod_resources.ZERO).whole(), device_cpus)
    memory = totals.get("memory", pod_resources.ZERO).mebi() * per_node
    fields: dict[str, Any] = {}
    if cpus:
        fields["cpus_per_task"] = _check_amount("CPUs for one pod", cpus, bounds.CPUS_MAX)
    if memory:
        fields["memory_per_node"] = number(_check_amount("MiB of memory on one node", memory, bounds.MEBIBYTES_MAX))
    counts = {kind: count * per_node for kind, count in devices.items()}
    counts |= {kind: counts.get(kind, 0) + count for kind, count in context.shared_devices.items()}
    for kind, count in counts.items():
        _check_amount(f"{kind} on one node", count, bounds.INT32_MAX)
    if counts:
        fields["tres_per_node"] = ",".join(f"gres/{kind}:{count}" for kind, count in sorted(counts.items()))
    return fields


def _min_resources(root: WorkloadRoot) -> dict[str, Quantity]:
    try:
        return {name: Quantity.parse(amount) for name, amount in root.min_resources.items()}
    except ValueError as error:
        raise OptionError(f"minResources of the group: {error}") from None


def _check_amount(what: str, amount: int, highest: int) -> int:
    """Raises `OptionError` for an amount that Slurm would wrap around or take for a special value."""
    if not 0 <= amount <= highest:
        raise OptionError(f"the pods request {amount} {what}; the most that Slurm can count is {highest}")
    return amount


def _device_counts(pods: Sequence[WorkloadPod], context: JobContext) -> dict[GresKind, int]:
    """The largest number of devices of each kind that one pod needs, from device plugins or by claims."""
    largest: dict[GresKind, int] = {}
    for pod in pods:
        counts = dict(context.devices_by_pod.get(pod.metadata.uid, {}))
        if gpus := pod_resources.requested_plugin_gpus(pod_resources.required_resources(pod), context.catalog):
            counts[ANY_GPU] = counts.get(ANY_GPU, 0) + gpus
        for kind, count in counts.items():
            largest[kind] = max(largest.get(kind, 0), count)
    return largest


def _check_node_limits(fields: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Remove the limits on nodes, which follow from the number of pods. Raises `OptionError` if they contradict it."""
    low, high = fields.pop("minimum_nodes", nodes), fields.pop("maximum_nodes", nodes)
    if low > nodes or high < nodes:
        raise OptionError(f"min-nodes {low} and max-nodes {high} contradict the {nodes} nodes that the pods need")
    return fields


def _limit_shared_memory(request: JobRequest) -> JobRequest:
    """Request 1 MiB for a shared job without memory: Slurm would otherwise allocate all memory of the node to it."""
    if request.shared or request.memory_per_node is not None:
        return request
    return msgspec.structs.replace(request, memory_per_node=number(1))


def _time_limit(root: WorkloadRoot, pods: Sequence[WorkloadPod]) -> Any:
    deadlines = [root.deadline, *(pod.spec.active_deadline_seconds for pod in pods)]
    seconds = [value for value in deadlines if value and value > 0]
    return number(min(-(-min(seconds) // 60), bounds.INT32_MAX)) if seconds else None
