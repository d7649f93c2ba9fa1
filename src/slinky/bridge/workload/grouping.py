# SPDX-License-Identifier: Apache-2.0
"""Which pods form a workload (one Slurm job), where its options come from, and how many pods it needs.

The workload of a pod follows from the pod itself (native PodGroup, PodGroup label, LeaderWorkerSet labels), or from its
batch job or JobSet if that has the option `gang`. A workload never spans namespaces. Only live pods with our scheduler
name are members.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slinky import bounds
from slinky.bridge import names
from slinky.bridge.views import (
    BATCH_JOBS,
    JOB_SETS,
    LEADER_WORKER_SETS,
    POD_GROUPS,
    JobSet,
    JobSetSpec,
    LeaderWorkerSet,
    NativeGroup,
    PodGroup,
    WorkloadBatchJob,
    WorkloadBatchJobSpec,
    WorkloadPod,
    native,
)
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.annotations import option_values
from slinky.kube import Discovery, Key, Object, Owner, Resource
from slinky.observe import Log

log = Log("slinky.bridge.workload.grouping")

GANG = names.OPTION + "gang"
#: Labels or annotations with the index of a pod in its group.
INDEXES = (names.LWS_WORKER, names.JOBSET_INDEX, names.JOB_INDEX, names.POD_INDEX)
NO_INDEXES = (0,) * len(INDEXES)
NUMBERS = frozenset({*INDEXES, names.LWS_SIZE})


class Workload(NamedTuple):
    """The name of a workload: the grouping object by kind and name, and the part of it, such as a group index."""

    namespace: str
    kind: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        text = f"{self.namespace}/{self.kind}/{self.name}"
        return f"{text}/{self.part}" if self.part else text

    @property
    def key(self) -> Key:
        """The key of the grouping object."""
        return Key(self.namespace, self.name)

    @property
    def is_single_pod(self) -> bool:
        """Whether the workload is one pod without a grouping object."""
        return self.kind == "Pod"


def parse_workload(text: str) -> Workload | None:
    """The workload that a signature names; None if the text is malformed."""
    parts = text.split("/")
    return Workload(*parts) if len(parts) in {3, 4} else None


@dataclass(frozen=True, slots=True)
class WorkloadRoot:
    """What the grouping object of a workload specifies."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    min_members: int = 1  # pods that must exist before the job is submitted
    succeeded: int | None = None  # pods that have succeeded and are not needed any more; None: unknown
    fixed_size: bool = False  # the number of pods never changes
    deadline: int | None = None  # seconds
    min_resources: Mapping[str, str | int] = field(default_factory=dict)  # requested by the group itself
    notes: tuple[str, ...] = ()  # about annotations that users should change
    hint: str = ""  # why pods may be missing
    unsupported: str = ""  # a demand of the group that Slurm cannot satisfy


class GroupMissing(Exception):  # noqa: N818 -- a decision, not a failure
    """The grouping object does not exist yet."""


FindGroup = Callable[[str, Key], Object | None]
"""The grouping object of a kind, or None: `find("PodGroup", Key("ns", "a"))`."""

JobsOfOwner = Callable[[str], Iterable[Object]]
"""The batch jobs that an object controls: `jobs_of(uid)`."""

WorkloadOfJob = Callable[[str], Workload | None]
"""The workload of a job, or None if the job is unknown: `workload_of_job("17")`."""


def workload_of(pod: WorkloadPod, find: FindGroup, workload_of_job: WorkloadOfJob) -> Workload:
    """The workload of a pod. The first grouping object that applies decides.

    Kubernetes itself creates a native PodGroup for each batch job with completion indexes, so the option `gang` of the
    JobSet or batch job above has precedence over it. A batch job or JobSet may be deleted while its pods still stop.
    Therefore a pod also belongs to the gang that the job in its label was submitted for.
    """
    meta, labels = pod.metadata, pod.metadata.labels
    if native_group := native_group_of(pod):
        above = _gang_of(pod, find, workload_of_job)
        job = pod_state.job_id(pod)
        return above if above and not (job and workload_of_job(job) == native_group) else native_group
    if group := labels.get(names.POD_GROUP_LABEL):
        return Workload(meta.namespace, "PodGroup", group)
    if (lws := labels.get(names.LWS_NAME)) and (index := labels.get(names.LWS_GROUP)):
        return Workload(meta.namespace, "LeaderWorkerSet", lws, index)
    return _gang_of(pod, find, workload_of_job) or Workload(meta.namespace, "Pod", meta.name)


def native_group_of(pod: WorkloadPod) -> Workload | None:
    """The native PodGroup that a pod names."""
    group = pod.spec.scheduling_group
    return (
        Workload(pod.metadata.namespace, "NativeGroup", group.pod_group_name)
        if group and group.pod_group_name
        else None
    )


def _gang_of(pod: WorkloadPod, find: FindGroup, workload_of_job: WorkloadOfJob) -> Workload | None:
    """The JobSet or batch job with the option `gang` that a pod belongs to."""
    for kind, label in (("JobSet", names.JOBSET_NAME), ("Job", names.JOB_NAME)):
        if name := pod.metadata.labels.get(label):
            gang = Workload(pod.metadata.namespace, kind, name)
            if is_gang(find(kind, gang.key)) or ((job := pod_state.job_id(pod)) and workload_of_job(job) == gang):
                return gang
    return None


def is_gang(owner: Object | None) -> bool:
    """Whether a batch job or JobSet has the option `gang`."""
    return owner is not None and option_values(owner.metadata.annotations).get("gang", "").strip().lower() == "true"


def group_keys_of(pod: WorkloadPod) -> tuple[str, ...]:
    """The index keys of every grouping object that a pod could belong to."""
    meta, labels = pod.metadata, pod.metadata.labels
    groups = [Workload(meta.namespace, "Pod", meta.name)]
    if native_group := native_group_of(pod):
        groups.append(native_group)
    for kind, label in (
        ("PodGroup", names.POD_GROUP_LABEL),
        ("LeaderWorkerSet", names.LWS_NAME),
        ("JobSet", names.JOBSET_NAME),
        ("Job", names.JOB_NAME),
    ):
        if name := labels.get(label):
            groups.append(Workload(meta.namespace, kind, name))
    return tuple(map(str, groups))


def group_key(workload: Workload) -> str:
    """The index key of the grouping object of a workload; all parts of the object have the same key."""
    return str(workload._replace(part=""))


def root_of_group(
    workload: Workload, group: Object | None, jobs_of: JobsOfOwner, pods: Sequence[WorkloadPod] = ()
) -> WorkloadRoot:
    """What a grouping object specifies for these pods. Raises `GroupMissing`."""
    if group is None:
        raise GroupMissing(f"{workload.kind} {workload.name} does not exist yet")
    annotations = group.metadata.annotations
    match group:
        case PodGroup(spec=spec):
            members = max(1, spec.min_member)
            return WorkloadRoot(annotations, workload.name, members, min_resources=spec.min_resources)
        case NativeGroup(spec=spec):
            gang = spec.scheduling_policy.gang
            members = max(1, gang.min_count) if gang else 1
            return WorkloadRoot(annotations, workload.name, members, unsupported=_unsupported(group))
        case LeaderWorkerSet(spec=spec):
            late = spec.startup_policy == "LeaderReady"
            hint = (
                "with startupPolicy LeaderReady the workers wait for the leader, which waits for them" if late else ""
            )
            members = _group_size(pods) or max(1, spec.leader_worker_template.size)
            return WorkloadRoot(annotations, f"{workload.name}-{workload.part}", members, fixed_size=True, hint=hint)
        case JobSet(spec=spec):
            return _root_of_job_set(group, spec, jobs_of(group.metadata.uid))
        case WorkloadBatchJob(spec=spec, status=status):
            members, deadline = max(1, concurrent_pods(spec, status.succeeded)), spec.active_deadline_seconds
            return WorkloadRoot(annotations, workload.name, members, status.succeeded, deadline=deadline)
    return WorkloadRoot(annotations)


def _group_size(pods: Sequence[WorkloadPod]) -> int:
    """The size of the group in the annotation that LeaderWorkerSet writes to its pods; 0 if it is not usable."""
    text = pods[0].metadata.annotations.get(names.LWS_SIZE, "") if pods else ""
    return bounds.parse_integer(text, 1, bounds.INT32_MAX) or 0


def _root_of_job_set(job_set: JobSet, spec: JobSetSpec, jobs: Iterable[Object]) -> WorkloadRoot:
    """The pods that a JobSet still has to run, computed from the batch jobs that exist.

    The number of replicas is not a bound for a loop: users write it, and it has 31 bits.
    """
    succeeded = {job.metadata.name: job.status.succeeded for job in jobs if isinstance(job, WorkloadBatchJob)}
    needed = total = 0
    for replicated in spec.replicated_jobs:
        prefix = f"{job_set.metadata.name}-{replicated.name}-"
        ended = [count for name, count in succeeded.items() if _has_index(name, prefix, replicated.replicas)]
        template = replicated.template.spec
        needed += max(0, replicated.replicas - len(ended)) * concurrent_pods(template)
        needed += sum(concurrent_pods(template, count) for count in ended)
        total += sum(ended)
    return WorkloadRoot(
        job_set.metadata.annotations,
        job_set.metadata.name,
        max(1, needed),
        total,
        fixed_size=True,
        deadline=shortest_deadline(job.template.spec.active_deadline_seconds for job in spec.replicated_jobs),
        hint=_startup_hint(spec),
    )


def _unsupported(group: NativeGroup) -> str:
    """A demand of a native PodGroup that Slurm cannot satisfy."""
    if group.parent:
        return f"PodGroup {group.metadata.name} is part of {group.parent}; groups of groups are not supported"
    if group.spec.scheduling_constraints and group.spec.scheduling_constraints.topology:
        return "schedulingConstraints are not supported; use the options switches and segment"
    return ""


def concurrent_pods(spec: WorkloadBatchJobSpec, succeeded: int = 0) -> int:
    """How many pods of a batch job run at the same time after `succeeded` of them have succeeded."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return max(0, parallelism)
    return max(0, min(parallelism, spec.completions - succeeded))


def _has_index(name: str, prefix: str, replicas: int) -> bool:
    """Whether a batch job is one of the replicas of a replicated job, by its name."""
    return name.startswith(prefix) and bounds.parse_integer(name.removeprefix(prefix), 0, replicas - 1) is not None


def _startup_hint(spec: JobSetSpec) -> str:
    """Why the JobSet controller may not create some pods before others run."""
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    if in_order or any(job.depends_on for job in spec.replicated_jobs):
        return "the batch jobs start one after another: later ones wait for pods that wait for the whole gang"
    return ""


def shortest_deadline(seconds: Iterable[int | None]) -> int | None:
    """The shortest of some deadlines in seconds; None if there is none."""
    return min((value for value in seconds if value), default=None)


def find_missing_owner(pod: WorkloadPod, find: FindGroup, is_watched: Callable[[Owner], bool]) -> Owner | None:
    """The first owner in the chain of controllers of a pod that is of a watched kind but not in the cache.

    A pod may arrive before its owner, and an older object of the same name must not be taken for the owner.
    """
    owner = pod.metadata.controller
    while owner is not None and is_watched(owner):
        cached = find(owner.kind, Key(pod.metadata.namespace, owner.name))
        if cached is None or cached.metadata.uid != owner.uid:
            return owner
        owner = cached.metadata.controller
    return None


def rank(pod: WorkloadPod) -> tuple[object, ...]:
    """The sort key of a pod within its workload: the index from its controller, then its name."""
    meta = pod.metadata
    numbers: tuple[int, ...] = NO_INDEXES
    if _has_numbers(pod):
        numbers = tuple(_parse_index(meta.labels.get(name) or meta.annotations.get(name)) for name in INDEXES)
    return (*numbers, _natural_key(meta.name))


def _has_numbers(pod: WorkloadPod) -> bool:
    """Whether the pod has a label or annotation with an index or a size; few pods have one."""
    return not (NUMBERS.isdisjoint(pod.metadata.labels) and NUMBERS.isdisjoint(pod.metadata.annotations))


def _parse_index(text: str | None) -> int:
    return bounds.parse_integer(text or "", 0, bounds.INT32_MAX) or 0


def find_invalid_number(pods: Iterable[WorkloadPod]) -> str:
    """The first index or size of these pods that is not usable, as a message; empty if there is none."""
    for pod in filter(_has_numbers, pods):
        for name in (*INDEXES, names.LWS_SIZE):
            text = pod.metadata.labels.get(name) or pod.metadata.annotations.get(name)
            if text and bounds.parse_integer(text, 0, bounds.INT32_MAX) is None:
                return f"{name} of pod {pod.metadata.name}: {text[:80]!r} is not a number that can be used"
    return ""


def _natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    # Numbers sort as numbers: worker-10 comes after worker-9.
    return tuple(
        (0, int(piece), "") if piece.isascii() and piece.isdigit() else (1, 0, piece)
        for piece in name.replace("-", ".").split(".")
    )


# --- the grouping kinds of a server

#: Grouping kinds that a cluster may have installed.
OPTIONAL_KINDS: tuple[Resource[Any], ...] = (JOB_SETS, LEADER_WORKER_SETS, POD_GROUPS)


def served_group_kinds(served: Discovery) -> dict[str, Resource[Any]]:
    """The grouping kinds of a server, by the kind that `Workload` uses.

    The bridge chooses the kinds that it watches once, at the start; `new_group_kinds` finds kinds installed later.
    """
    kinds: dict[str, Resource[Any]] = {"Job": BATCH_JOBS}
    kinds |= {kind.kind: kind for kind in OPTIONAL_KINDS if served.find(kind.group, kind.kind, kind.version)}
    versions = served.versions(native.GROUP, "PodGroup")
    groups = native.native_groups(versions)
    if groups is None:
        if versions:
            log.warning("the served versions of native PodGroups are not supported", versions=versions)
        return kinds
    kinds["NativeGroup"] = groups
    if served.find(native.GROUP, "Workload", groups.version):
        kinds["Workload"] = native.native_workloads(groups.version)
    return kinds


def new_group_kinds(watched: dict[str, Resource[Any]], served: Discovery) -> str:
    """The grouping kinds of a server that are not watched, or in another version; empty if there are none."""
    current = {kind: f"{item.kind} of {item.api_version}" for kind, item in served_group_kinds(served).items()}
    known = {kind: f"{item.kind} of {item.api_version}" for kind, item in watched.items()}
    return ", ".join(text for kind, text in current.items() if known.get(kind) != text)
