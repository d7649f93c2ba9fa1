# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Pods."""

from typing import Any

import msgspec

from slinky.kube import PODS, Condition, Object, View
from slinky.kube.interning import intern_metadata

Amounts = dict[str, str | int]


class ContainerClaim(View, frozen=True):
    """A claim that a container uses."""

    name: str
    request: str = ""


class Resources(View, frozen=True):
    """Requests and limits."""

    requests: Amounts = {}
    limits: Amounts = {}
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(View, frozen=True):
    """A port of a container; only host ports are used."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(View, frozen=True):
    """The resources and ports of a container."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class Toleration(View, frozen=True):
    """A toleration of taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class SelectorMatch(View, frozen=True):
    """One requirement on labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class SelectorTerm(View, frozen=True):
    """Requirements that must all match."""

    match_expressions: tuple[SelectorMatch, ...] = ()
    match_fields: tuple[SelectorMatch, ...] = ()


class NodeSelector(View, frozen=True):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[SelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True):
    """Required and preferred nodes; preferred ones only cause a warning."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()


class PodAffinityTerms(View, frozen=True):
    """Pod affinity or anti-affinity, which Slurm does not support."""

    required_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()


class Affinity(View, frozen=True, gc=True):
    """The affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinityTerms | None = None
    pod_anti_affinity: PodAffinityTerms | None = None


class VolumeClaimRef(View, frozen=True):
    """A reference to a volume claim."""

    claim_name: str


class Volume(View, frozen=True):
    """A volume of a pod; only claims are used."""

    name: str = ""
    persistent_volume_claim: VolumeClaimRef | None = None
    ephemeral: dict[str, Any] | None = None


class SchedulingGate(View, frozen=True):
    """A scheduling gate."""

    name: str


class ResourceClaimRef(View, frozen=True):
    """A reference to a resource claim or claim template."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class SchedulingGroup(View, frozen=True):
    """The native PodGroup of a pod."""

    pod_group_name: str = ""


class WorkloadPodSpec(View, frozen=True, gc=True):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    priority: int = 0
    priority_class_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources = Resources()
    overhead: Amounts = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[ResourceClaimRef, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    topology_spread_constraints: tuple[Any, ...] = ()
    active_deadline_seconds: int | None = None


class Terminated(View, frozen=True):
    """The end of a container."""

    exit_code: int = 0
    reason: str = ""


class ContainerState(View, frozen=True):
    """The state of a container."""

    terminated: Terminated | None = None


class WorkloadContainerStatus(View, frozen=True):
    """The status of a container."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodClaimStatus(View, frozen=True):
    """The resource claim behind a claim reference of the pod."""

    name: str
    resource_claim_name: str = ""


class ExtendedClaimStatus(View, frozen=True):
    """The resource claim of the extended resources of the pod."""

    resource_claim_name: str = ""


class WorkloadPodStatus(View, frozen=True):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[WorkloadContainerStatus, ...] = ()
    init_container_statuses: tuple[WorkloadContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class WorkloadPod(Object, frozen=True, gc=True):
    """A pod."""

    spec: WorkloadPodSpec = WorkloadPodSpec()
    status: WorkloadPodStatus = WorkloadPodStatus()


OUR_PODS = PODS.viewed_as(WorkloadPod, intern=intern_metadata)


class ForeignPodSpec(View, frozen=True, gc=True):
    """What a pod of another scheduler requests of its node."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources = Resources()
    overhead: Amounts = {}
    tolerations: tuple[Toleration, ...] = ()


class ForeignPod(Object, frozen=True, gc=True):
    """A bound pod of another scheduler. The fields after the spec are computed: see `feasibility.node_usage`."""

    spec: ForeignPodSpec = ForeignPodSpec()
    requests: tuple[tuple[str, int], ...] = ()
    host_ports: tuple[tuple[int, str, str], ...] = ()  # number, protocol, address
    worker_host: str = ""  # the host of a Slurm worker
    is_control: bool = False  # slurmctld, the operator and so on
    is_expected: bool = False  # of a DaemonSet, static, or of Slurm
    tolerations: tuple[Toleration, ...] = ()  # of a control pod, as far as they concern the taint of the bridge
