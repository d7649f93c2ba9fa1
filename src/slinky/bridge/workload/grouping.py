# SPDX-License-Identifier: Apache-2.0
"""Which pods form a workload (one Slurm job), where its options come from, and how many pods it needs.

The workload of a pod follows from the pod itself (native PodGroup, PodGroup label, LeaderWorkerSet labels), or from its
batch job or JobSet if that has the option `gang`. A workload never spans namespaces. Only live pods with our scheduler
name are members.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    ReplicatedJob,
    WorkloadBatchJob,
    WorkloadBatchJobSpec,
    WorkloadPod,
    native,
)
from slinky.bridge.workload import pod_state
from slinky.kube import Discovery, Key, Object, Owner, Resource
from slinky.observe import Log

log = Log("slinky.bridge.workload.grouping")

GANG = names.OPTION + "gang"


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
    hint: str = ""  # why pods may be missing
    unsupported: str = ""  # a demand of the group that Slurm cannot satisfy


class GroupMissing(Exception):  # noqa: N818 -- a decision, not a failure
    """The grouping object does not exist yet."""


FindGroup = Callable[[str, Key], Object | None]
"""The grouping object of a kind, or None: `find("PodGroup", Key("ns", "a"))`."""

WorkloadOfJob = Callable[[str], Workload | None]
"""The workload of a job, or None if the job is unknown: `workload_of_job("17")`."""


def workload_of(pod: WorkloadPod, find: FindGroup, workload_of_job: WorkloadOfJob) -> Workload:
    """The workload of a pod. The first grouping object that applies decides.

    A batch job or JobSet may be deleted while its pods still stop. Therefore a pod also belongs to the gang that the
    job in its label was submitted for.
    """
    meta, labels = pod.metadata, pod.metadata.labels
    if pod.spec.scheduling_group and pod.spec.scheduling_group.pod_group_name:
        return Workload(meta.namespace, "NativeGroup", pod.spec.scheduling_group.pod_group_name)
    if group := labels.get(names.POD_GROUP_LABEL):
        return Workload(meta.namespace, "PodGroup", group)
    if (lws := labels.get(names.LWS_NAME)) and (index := labels.get(names.LWS_GROUP)):
        return Workload(meta.namespace, "LeaderWorkerSet", lws, index)
    for kind, label in (("JobSet", names.JOBSET_NAME), ("Job", names.JOB_NAME)):
        if name := labels.get(label):
            gang = Workload(meta.namespace, kind, name)
            if is_gang(find(kind, gang.key)) or ((job := pod_state.job_id(pod)) and workload_of_job(job) == gang):
                return gang
    return Workload(meta.namespace, "Pod", meta.name)


def is_gang(owner: Object | None) -> bool:
    """Whether a batch job or JobSet has the option `gang`."""
    return owner is not None and owner.metadata.annotations.get(GANG, "").strip().lower() == "true"


def group_keys_of(pod: WorkloadPod) -> tuple[str, ...]:
    """The index keys of every grouping object that a pod could belong to."""
    meta, labels = pod.metadata, pod.metadata.labels
    groups = [Workload(meta.namespace, "Pod", meta.name)]
    if pod.spec.scheduling_group and pod.spec.scheduling_group.pod_group_name:
        groups.append(Workload(meta.namespace, "NativeGroup", pod.spec.scheduling_group.pod_group_name))
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


def root_of_group(workload: Workload, group: Object | None, find: FindGroup, size: int = 0) -> WorkloadRoot:
    """What a grouping object specifies; `size` is the group size in the annotation of a pod. Raises `GroupMissing`."""
    if group is None:
        raise GroupMissing(f"{workload.kind} {workload.name} does not exist yet")
    annotations = group.metadata.annotations
    match group:
        case PodGroup(spec=spec):
            return WorkloadRoot(annotations, min_members=max(1, spec.min_member), min_resources=spec.min_resources)
        case NativeGroup(spec=spec):
            gang = spec.scheduling_policy.gang
            members = max(1, gang.min_count) if gang else 1
            return WorkloadRoot(annotations, workload.name, members, unsupported=_unsupported(group))
        case LeaderWorkerSet(spec=spec):
            late = spec.startup_policy == "LeaderReady"
            hint = (
                "with startupPolicy LeaderReady the workers wait for the leader, which waits for them" if late else ""
            )
            members = size or spec.leader_worker_template.size
            return WorkloadRoot(annotations, f"{workload.name}-{workload.part}", members, fixed_size=True, hint=hint)
        case JobSet(spec=spec):
            return _root_of_job_set(group, spec, find)
        case WorkloadBatchJob(spec=spec, status=status):
            members, deadline = max(1, concurrent_pods(spec, status.succeeded)), spec.active_deadline_seconds
            return WorkloadRoot(annotations, workload.name, members, status.succeeded, deadline=deadline)
    return WorkloadRoot(annotations)


def _root_of_job_set(job_set: JobSet, spec: JobSetSpec, find: FindGroup) -> WorkloadRoot:
    progress = [
        (job.template.spec, succeeded)
        for job in spec.replicated_jobs
        for succeeded in _succeeded_by_job(job_set, job, find)
    ]
    return WorkloadRoot(
        job_set.metadata.annotations,
        job_set.metadata.name,
        max(1, sum(concurrent_pods(job, succeeded) for job, succeeded in progress)),
        sum(succeeded for _, succeeded in progress),
        fixed_size=True,
        deadline=_shortest(job.template.spec.active_deadline_seconds for job in spec.replicated_jobs),
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


def _succeeded_by_job(job_set: JobSet, replicated: ReplicatedJob, find: FindGroup) -> list[int]:
    """How many pods have succeeded in each batch job of a replicated job."""
    meta = job_set.metadata
    keys = (Key(meta.namespace, f"{meta.name}-{replicated.name}-{index}") for index in range(replicated.replicas))
    return [_succeeded(find("Job", key), job_set) for key in keys]


def _succeeded(job: Object | None, job_set: JobSet) -> int:
    """How many pods of a batch job have succeeded, if this JobSet controls it."""
    owner = job.metadata.controller if job else None
    is_owned = owner is not None and owner.uid == job_set.metadata.uid
    return job.status.succeeded if is_owned and isinstance(job, WorkloadBatchJob) else 0


def _startup_hint(spec: JobSetSpec) -> str:
    """Why the JobSet controller may not create some pods before others run."""
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    if in_order or any(job.depends_on for job in spec.replicated_jobs):
        return "the batch jobs start one after another: later ones wait for pods that wait for the whole gang"
    return ""


def _shortest(seconds: Iterable[int | None]) -> int | None:
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
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    indexes = (names.LWS_WORKER, names.JOBSET_INDEX, names.JOB_INDEX, names.POD_INDEX)
    numbers = tuple(_parse_index(labels.get(name) or annotations.get(name)) for name in indexes)
    return (*numbers, _natural_key(pod.metadata.name))


def _parse_index(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


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
