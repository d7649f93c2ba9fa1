# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""What the bridge reads of pods, of the objects that group them, and of devices; nothing more is decoded."""

from typing import Any

import msgspec

from slinky.kube import PODS, Condition, Object, Resource, View
from slinky.kube.sharing import share_meta

Amounts = dict[str, str | int]


class Claimed(View, frozen=True):
    """A claim that a container uses."""

    name: str
    request: str = ""


class Resources(View, frozen=True):
    """Requests and limits."""

    requests: Amounts = {}
    limits: Amounts = {}
    claims: tuple[Claimed, ...] = ()


class Port(View, frozen=True):
    """A container's port; only host ports matter here."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(View, frozen=True):
    """What a container needs."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""


class Toleration(View, frozen=True):
    """Which taints a pod bears."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Match(View, frozen=True):
    """One requirement on labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(View, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[Match, ...] = ()
    match_fields: tuple[Match, ...] = ()


class NodeSelector(View, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(View, frozen=True):
    """Which nodes a pod must have; preferences are Slurm's business."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodTerms(View, frozen=True):
    """Required relations to other pods, which Slurm cannot express."""

    required_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()


class Affinity(View, frozen=True, gc=True):
    """Affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


class ClaimRef(View, frozen=True):
    """A volume that is a PersistentVolumeClaim."""

    claim_name: str


class Volume(View, frozen=True):
    """A volume; only claims restrict where a pod can run."""

    name: str = ""
    persistent_volume_claim: ClaimRef | None = None
    ephemeral: dict[str, Any] | None = None


class Gate(View, frozen=True):
    """Somebody holds the pod back."""

    name: str


class ResourceClaimRef(View, frozen=True):
    """A device claim that a pod names."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class SchedulingGroup(View, frozen=True):
    """The native gang that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(View, frozen=True, gc=True):
    """What a pod needs and where it is."""

    node_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    priority: int = 0
    priority_class_name: str = ""
    host_network: bool = False
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources = Resources()
    overhead: Amounts = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[Gate, ...] = ()
    resource_claims: tuple[ResourceClaimRef, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    topology_spread_constraints: tuple[Any, ...] = ()
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int = 30


class Terminated(View, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""


class ContainerState(View, frozen=True):
    """What a container does now."""

    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True):
    """How one container does."""

    name: str = ""
    state: ContainerState = ContainerState()


class ClaimStatus(View, frozen=True):
    """The claim that serves one of the pod's named claims."""

    name: str
    resource_claim_name: str = ""


class ExtendedClaim(View, frozen=True):
    """The claim that serves the pod's extended resources."""

    resource_claim_name: str = ""


class PodStatus(View, frozen=True):
    """How a pod does."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class Pod(Object, frozen=True, gc=True):
    """A pod as the bridge sees it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- what groups pods


class JobSpec(View, frozen=True):
    """A batch job's shape."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None


class BatchJob(Object, frozen=True):
    """A batch job."""

    spec: JobSpec = JobSpec()


class JobTemplate(View, frozen=True):
    """The batch job that a JobSet makes."""

    spec: JobSpec = JobSpec()


class ReplicatedJob(View, frozen=True):
    """One kind of batch job in a JobSet."""

    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()


class JobSetSpec(View, frozen=True):
    """A JobSet's shape."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()


class JobSet(Object, frozen=True):
    """A JobSet."""

    spec: JobSetSpec = JobSetSpec()


class LeaderWorkerTemplate(View, frozen=True):
    """The size of one group."""

    size: int = 1


class LwsSpec(View, frozen=True):
    """A LeaderWorkerSet's shape."""

    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = ""


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet."""

    spec: LwsSpec = LwsSpec()


class PodGroupSpec(View, frozen=True):
    """The gang of the coscheduling project."""

    min_member: int = 0
    min_resources: Amounts = {}


class PodGroup(Object, frozen=True):
    """A PodGroup of scheduling.x-k8s.io."""

    spec: PodGroupSpec = PodGroupSpec()


class Gang(View, frozen=True):
    """All or nothing, from this many on."""

    min_count: int = 0


class GangPolicy(View, frozen=True):
    """How a native PodGroup wants to be scheduled; None for `gang` means one by one."""

    gang: Gang | None = None


class WorkloadRef(View, frozen=True):
    """The Workload and its template that a native PodGroup was made from."""

    workload_name: str = ""


class GroupSource(View, frozen=True):
    """Where a native PodGroup comes from."""

    workload: WorkloadRef | None = None


class NativeGroupSpec(View, frozen=True):
    """A native PodGroup's shape; the reference has changed its name between versions."""

    scheduling_policy: GangPolicy = GangPolicy()
    pod_group_template_ref: GroupSource | None = None


class NativeGroupStatus(View, frozen=True):
    """How a native PodGroup does."""

    conditions: tuple[Condition, ...] = ()


class NativeGroup(Object, frozen=True):
    """A PodGroup of scheduling.k8s.io."""

    spec: NativeGroupSpec = NativeGroupSpec()
    status: NativeGroupStatus = NativeGroupStatus()


# --- storage


class VolumeClaimSpec(View, frozen=True):
    """Which volume a claim has."""

    volume_name: str = ""
    storage_class_name: str | None = None


class Phase(View, frozen=True):
    """A phase and no more."""

    phase: str = ""


class VolumeClaim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: Phase = Phase()


class VolumeAffinity(View, frozen=True):
    """Where a volume can be reached."""

    required: NodeSelector | None = None


class VolumeSpec(View, frozen=True):
    """A volume's reach."""

    node_affinity: VolumeAffinity | None = None


class PersistentVolume(Object, frozen=True):
    """A volume."""

    spec: VolumeSpec = VolumeSpec()


class StorageClass(Object, frozen=True):
    """How volumes of a class come to be."""

    volume_binding_mode: str = "Immediate"


# --- devices


class Attribute(View, frozen=True):
    """A value that a driver tells of a device."""

    number: int | None = msgspec.field(default=None, name="int")


class Device(View, frozen=True):
    """One device of a node."""

    name: str
    attributes: dict[str, Attribute] = {}


class Pool(View, frozen=True):
    """The pool that a slice is part of."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(View, frozen=True):
    """Devices that one driver has on one node."""

    driver: str
    pool: Pool
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class Slice(Object, frozen=True):
    """A ResourceSlice."""

    spec: SliceSpec


class Cel(View, frozen=True):
    """An expression over devices."""

    expression: str = ""


class DeviceSelector(View, frozen=True):
    """Which devices belong to a class."""

    cel: Cel | None = None


class DeviceClassSpec(View, frozen=True):
    """The devices of a class, and the extended resource by which they can be asked for."""

    extended_resource_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object, frozen=True):
    """A DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class ExactRequest(View, frozen=True):
    """So many devices of a class."""

    device_class_name: str = ""
    count: int = 1
    allocation_mode: str = "ExactCount"
    selectors: tuple[DeviceSelector, ...] = ()
    admin_access: bool = False


class DeviceRequest(View, frozen=True):
    """One request of a claim."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[Any, ...] = ()


class Wanted(View, frozen=True):
    """The requests of a claim."""

    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(View, frozen=True):
    """What a claim asks for."""

    devices: Wanted = Wanted()


class Result(View, frozen=True):
    """A device that a claim was given."""

    request: str
    driver: str
    pool: str
    device: str


class Results(View, frozen=True):
    """The devices that a claim was given."""

    results: tuple[Result, ...] = ()


class Allocation(View, frozen=True):
    """What a claim was given."""

    devices: Results = Results()


class Consumer(View, frozen=True):
    """Who may use a claim."""

    name: str = ""
    uid: str = ""
    resource: str = ""


class ResourceClaimStatus(View, frozen=True):
    """What became of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Object, frozen=True, gc=True):
    """A ResourceClaim."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(View, frozen=True, gc=True):
    """The claim that a template makes."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ClaimTemplate(Object, frozen=True, gc=True):
    """A ResourceClaimTemplate."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


OUR_PODS = PODS.viewed_as(Pod, share=share_meta)
BATCH_JOBS = Resource("batch/v1", "Job", "jobs", BatchJob)
JOB_SETS = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", JobSet)
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", LeaderWorkerSet)
POD_GROUPS = Resource("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", PodGroup)
VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", VolumeClaim)
VOLUMES = Resource("v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", Slice, namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", ResourceClaim)
CLAIM_TEMPLATES = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplate)


def native_groups(version: str) -> Resource[NativeGroup]:
    """The built-in PodGroup in the version that the server has."""
    return Resource(f"scheduling.k8s.io/{version}", "PodGroup", "podgroups", NativeGroup)


def native_workloads(version: str) -> Resource[Object]:
    """The built-in Workload, of which only annotations are read."""
    return Resource(f"scheduling.k8s.io/{version}", "Workload", "workloads", Object)
