# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Partial views of the built-in kinds, and their resources.

Each view has the fields that controllers commonly read. A program that needs another field defines its own view and
uses `PODS.viewed_as(MyPod)`, because every field here costs memory in every cache.
"""

from typing import Any

import msgspec

from slinky.kube.interning import intern_metadata, intern_pod
from slinky.kube.resource import Resource
from slinky.kube.types import Condition, Key, Object, ObjectMeta, View

IntOrString = int | str


class PodSpec(View, frozen=True):
    """The scheduling fields of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    hostname: str = ""
    priority: int = 0


class ContainerWaiting(View, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerRunning(View, frozen=True):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerTerminated(View, frozen=True):
    """How a container ended; the message is the end of its output if its termination message policy says so."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerRunState(View, frozen=True):
    """The state of a container; one of the fields is set."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(View, frozen=True):
    """The state of one container, and the state before its last restart."""

    name: str
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerRunState = ContainerRunState()
    last_state: ContainerRunState = ContainerRunState()


class PodStatus(View, frozen=True):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is true."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def finished(self) -> bool:
        """Whether all containers have terminated and will not restart."""
        return self.status.phase in {"Succeeded", "Failed"}


class Taint(View, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(View, frozen=True):
    """The scheduling fields of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(View, frozen=True):
    """One address of a node."""

    type: str
    address: str


class NodeStatus(View, frozen=True):
    """The resources, conditions and addresses of a node."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Object, frozen=True):
    """A Kubernetes node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is true: the kubelet reports and is healthy."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class ConfigMap(Object, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False


class Secret(Object, frozen=True):
    """A Secret; values are decoded from base64, and `repr` does not show them."""

    data: dict[str, bytes] = {}
    type: str = "Opaque"
    immutable: bool = False

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.key} with {len(self.data)} keys>"


class ServicePort(View, frozen=True):
    """One port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0
    target_port: IntOrString = 0


class ServiceSpec(View, frozen=True):
    """The addresses, ports and pods of a Service."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    type: str = "ClusterIP"
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()


class Service(Object, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class ReplicaSpec(View, frozen=True):
    """The desired number of replicas."""

    replicas: int = 1


class ReplicaStatus(View, frozen=True):
    """The observed replicas of a Deployment or StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class Deployment(Object, frozen=True):
    """A Deployment."""

    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class BatchJobSpec(View, frozen=True):
    """The desired state of a batch job."""

    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False


class BatchJobStatus(View, frozen=True):
    """The progress of a batch job."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class BatchJob(Object, frozen=True):
    """A Kubernetes Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class ClaimStatus(View, frozen=True):
    """The phase of a claim."""

    phase: str = ""


class ClaimSpec(View, frozen=True):
    """The requested volume of a claim."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class LeaseSpec(View, frozen=True):
    """The holder of a lease and its duration."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    """A Lease, for leader election."""

    spec: LeaseSpec = LeaseSpec()


class ScaleSpec(View, frozen=True):
    """The desired number of replicas."""

    replicas: int = 0


class ScaleStatus(View, frozen=True):
    """The observed number of replicas."""

    replicas: int = 0
    selector: str = ""


class Scale(Object, frozen=True):
    """The scale subresource of any kind that has one."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class KubeEvent(Object, frozen=True):
    """An event about an object."""

    type: str = ""
    reason: str = ""
    message: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def time(self) -> str:
        """When the event happened last."""
        return self.last_timestamp or self.event_time or self.first_timestamp or self.metadata.creation_timestamp


class Unstructured(msgspec.Struct, frozen=True, gc=True):
    """An object with all fields of spec, status and data, for tools; too large for caches."""

    metadata: ObjectMeta
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    spec: Any = None
    status: Any = None
    data: Any = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


PODS = Resource("v1", "Pod", "pods", Pod, intern=intern_pod)
NODES = Resource("v1", "Node", "nodes", Node, namespaced=False)
NAMESPACES = Resource("v1", "Namespace", "namespaces", Object, namespaced=False)
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps", ConfigMap, intern=intern_metadata)
SECRETS = Resource("v1", "Secret", "secrets", Secret, intern=intern_metadata)
SERVICES = Resource("v1", "Service", "services", Service, intern=intern_metadata)
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts", Object, intern=intern_metadata)
VOLUME_CLAIMS = Resource(
    "v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim, intern=intern_metadata
)
EVENTS = Resource("v1", "Event", "events", Object)
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", Deployment, intern=intern_metadata)
STATEFUL_SETS = Resource("apps/v1", "StatefulSet", "statefulsets", StatefulSet, intern=intern_metadata)
BATCH_JOBS = Resource("batch/v1", "Job", "jobs", BatchJob, intern=intern_metadata)
DISRUPTION_BUDGETS = Resource(
    "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Object, intern=intern_metadata
)
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", Lease)
CUSTOM_RESOURCES = Resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    Object,
    namespaced=False,
)
