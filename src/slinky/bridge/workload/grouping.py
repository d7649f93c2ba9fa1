# SPDX-License-Identifier: Apache-2.0
"""Which pods form one Slurm job, where its options come from, and whether the gang is complete.

A `Unit` names such a set. It is found from the pod itself (native group, PodGroup label, LeaderWorkerSet labels)
and, where a batch job or JobSet asked for it by annotation, from its root. Namespaces never mix, and only pods that
are ours and alive count as members.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slinky.bridge import names
from slinky.bridge.state.views import (
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
    """Names the pods of one Slurm job: a kind, the object that groups them, and which part of it."""

    namespace: str
    kind: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        whole = f"{self.namespace}/{self.kind}/{self.name}"
        return f"{whole}/{self.part}" if self.part else whole

    @property
    def key(self) -> Key:
        """The grouping object."""
        return Key(self.namespace, self.name)

    @property
    def is_single_pod(self) -> bool:
        """One pod, one job."""
        return self.kind == "Pod"


@dataclass(frozen=True)
class WorkloadRoot:
    """The object that speaks for a unit: annotations by increasing weight, and what its spec tells."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    min_members: int = 1  # members before anything is submitted
    succeeded: int | None = None  # members that have succeeded, and are not needed any more; None: not told
    fixed_size: bool = False  # a size that never changes while the unit lives
    deadline: int | None = None  # seconds
    min_resources: Mapping[str, str | int] = field(default_factory=dict)  # resources asked for by the group itself
    hint: str = ""  # why members may be missing
    unsupported: str = ""  # what it demands and nobody can give it


class GroupMissing(Exception):  # noqa: N818 -- a decision, not a failure
    """The grouping object is not there yet."""


FindGroup = Callable[[str, Key], Object | None]
"""The grouping object of a kind, or None: `find("PodGroup", Key("ns", "a"))`."""

WorkloadOfJob = Callable[[str], Workload | None]
"""What a job stands for, as far as that is known: `standing("17")`."""


def workload_of(pod: WorkloadPod, find: FindGroup, standing: WorkloadOfJob) -> Workload:
    """The unit a pod belongs to, in the order in which grouping objects win.

    Batch jobs and JobSets say themselves that they are gangs, and may be gone while their pods still stop: what a
    pod's job was made for holds as long as the pod has it.
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
            if is_gang(find(kind, gang.key)) or ((job := pod_state.job_id(pod)) and standing(job) == gang):
                return gang
    return Workload(meta.namespace, "Pod", meta.name)


def is_gang(root: Object | None) -> bool:
    """A batch job or JobSet says that its pods belong together."""
    return root is not None and root.metadata.annotations.get(GANG, "").strip().lower() == "true"


def group_keys_of(pod: WorkloadPod) -> tuple[str, ...]:
    """Every grouping object a pod could be part of: the index by which units and roots find their pods."""
    meta, labels = pod.metadata, pod.metadata.labels
    found = [Workload(meta.namespace, "Pod", meta.name)]
    if pod.spec.scheduling_group and pod.spec.scheduling_group.pod_group_name:
        found.append(Workload(meta.namespace, "NativeGroup", pod.spec.scheduling_group.pod_group_name))
    for kind, label in (
        ("PodGroup", names.POD_GROUP_LABEL),
        ("LeaderWorkerSet", names.LWS_NAME),
        ("JobSet", names.JOBSET_NAME),
        ("Job", names.JOB_NAME),
    ):
        if name := labels.get(label):
            found.append(Workload(meta.namespace, kind, name))
    return tuple(map(str, found))


def group_key(unit: Workload) -> str:
    """Where `groups_of` files the pods of a unit, and of its neighbours in the same object."""
    return str(unit._replace(part=""))


def root_of_group(unit: Workload, found: Object | None, find: FindGroup, size: int = 0) -> WorkloadRoot:
    """What a grouping object says; `size` is what a pod itself tells of its group. Raises `Missing`."""
    if found is None:
        raise GroupMissing(f"{unit.kind} {unit.name} does not exist yet")
    annotations = found.metadata.annotations
    match found:
        case PodGroup(spec=spec):
            return WorkloadRoot(annotations, min_members=max(1, spec.min_member), min_resources=spec.min_resources)
        case NativeGroup(spec=spec):
            gang = spec.scheduling_policy.gang
            return WorkloadRoot(
                annotations, unit.name, max(1, gang.min_count) if gang else 1, unsupported=_beyond(found)
            )
        case LeaderWorkerSet(spec=spec):
            late = spec.startup_policy == "LeaderReady"
            hint = "with startupPolicy LeaderReady its workers wait for a leader that waits for them" if late else ""
            wanted = size or spec.leader_worker_template.size
            return WorkloadRoot(annotations, f"{unit.name}-{unit.part}", wanted, fixed_size=True, hint=hint)
        case JobSet(spec=spec):
            limit = _shortest(job.template.spec.active_deadline_seconds for job in spec.replicated_jobs)
            ended = [(job.template.spec, done) for job in spec.replicated_jobs for done in _ended(found, job, find)]
            wanted, counted = (
                max(1, sum(concurrent_pods(job, done) for job, done in ended)),
                sum(done for _, done in ended),
            )
            return WorkloadRoot(
                annotations, unit.name, wanted, counted, fixed_size=True, deadline=limit, hint=_in_turn(spec)
            )
        case WorkloadBatchJob(spec=spec, status=status):
            wanted = max(1, concurrent_pods(spec, status.succeeded))
            return WorkloadRoot(annotations, unit.name, wanted, status.succeeded, deadline=spec.active_deadline_seconds)
    return WorkloadRoot(annotations)


def _beyond(group: NativeGroup) -> str:
    """What a native group demands that Slurm cannot be asked for."""
    if group.parent:
        return f"PodGroup {group.metadata.name} is part of {group.parent}; groups of groups cannot be honoured"
    if group.spec.scheduling_constraints and group.spec.scheduling_constraints.topology:
        return "schedulingConstraints cannot be honoured; see the options switches and segment"
    return ""


def concurrent_pods(spec: WorkloadBatchJobSpec, succeeded: int = 0) -> int:
    """How many pods of a batch job run at once, after so many have succeeded."""
    wanted = 1 if spec.parallelism is None else spec.parallelism
    return max(0, wanted if spec.completions is None else min(wanted, spec.completions - succeeded))


def _ended(owner: JobSet, kind: ReplicatedJob, find: FindGroup) -> list[int]:
    """How many pods have succeeded in each of a JobSet's batch jobs of one kind; those do not come again."""
    keys = (Key(owner.metadata.namespace, f"{owner.metadata.name}-{kind.name}-{i}") for i in range(kind.replicas))
    return [_succeeded(find("Job", key), owner) for key in keys]


def _succeeded(job: Object | None, owner: JobSet) -> int:
    """How many pods of a batch job have succeeded, if it is of this very JobSet."""
    above = job.metadata.controller if job else None
    mine = above is not None and above.uid == owner.metadata.uid
    return job.status.succeeded if mine and isinstance(job, WorkloadBatchJob) else 0


def _in_turn(spec: JobSetSpec) -> str:
    """Why pods of a JobSet may not come before others run."""
    ordered = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == "InOrder"
    late = ordered or any(job.depends_on for job in spec.replicated_jobs)
    return "its batch jobs start one after the other: the later ones wait for pods that wait for them" if late else ""


def _shortest(seconds: Iterable[int | None]) -> int | None:
    return min((value for value in seconds if value), default=None)


def find_missing_owner(pod: WorkloadPod, find: FindGroup, watched: Callable[[Owner], bool]) -> Owner | None:
    """The first of the owners of a pod, each the controller of the one before, that should be in sight and is not.

    Pods may be seen before what made them, and an old object under the same name says nothing about them.
    """
    owner = pod.metadata.controller
    while owner is not None and watched(owner):
        found = find(owner.kind, Key(pod.metadata.namespace, owner.name))
        if found is None or found.metadata.uid != owner.uid:
            return owner
        owner = found.metadata.controller
    return None


def rank(pod: WorkloadPod) -> tuple[object, ...]:
    """The order in which pods expect their nodes: the index that their own controller gave them, then the name."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    indexes = (names.LWS_WORKER, names.JOBSET_INDEX, names.JOB_INDEX, names.POD_INDEX)
    given = tuple(_number(labels.get(name) or annotations.get(name)) for name in indexes)
    return (*given, _natural(pod.metadata.name))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    # Numbers sort as numbers: worker-10 comes after worker-9.
    return tuple(
        (0, int(piece), "") if piece.isascii() and piece.isdigit() else (1, 0, piece)
        for piece in name.replace("-", ".").split(".")
    )


# --- the grouping kinds of a server

#: Kinds that a cluster may have installed.
OPTIONAL_KINDS: tuple[Resource[Any], ...] = (JOB_SETS, LEADER_WORKER_SETS, POD_GROUPS)


def served_group_kinds(served: Discovery) -> dict[str, Resource[Any]]:
    """The grouping kinds that a server has, by the kind that a `Workload` uses for them.

    The set of watched kinds is fixed at the start; `new_group_kinds` finds what is installed later.
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
    """The grouping kinds that a server has and that are not watched, or in another version; empty if there are none."""
    now = {kind: f"{resource.kind} of {resource.api_version}" for kind, resource in served_group_kinds(served).items()}
    before = {kind: f"{resource.kind} of {resource.api_version}" for kind, resource in watched.items()}
    return ", ".join(text for kind, text in now.items() if before.get(kind) != text)
