# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""What a pod needs, where it is, and how it does."""

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
    """A container's port; only host ports matter here."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(View, frozen=True):
    """What a container needs."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class Toleration(View, frozen=True):
    """Which taints a pod bears."""

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
    """Requirements that must all hold."""

    match_expressions: tuple[SelectorMatch, ...] = ()
    match_fields: tuple[SelectorMatch, ...] = ()


class NodeSelector(View, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True):
    """Which nodes a pod must have; preferences are only noticed."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()


class PodAffinityTerms(View, frozen=True):
    """Relations to other pods, which Slurm cannot express."""

    required_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[Any, ...] = ()


class Affinity(View, frozen=True, gc=True):
    """Affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinityTerms | None = None
    pod_anti_affinity: PodAffinityTerms | None = None


class VolumeClaimRef(View, frozen=True):
    """A volume that is a PersistentVolumeClaim."""

    claim_name: str


class Volume(View, frozen=True):
    """A volume; only claims restrict where a pod can run."""

    name: str = ""
    persistent_volume_claim: VolumeClaimRef | None = None
    ephemeral: dict[str, Any] | None = None


class SchedulingGate(View, frozen=True):
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


class WorkloadPodSpec(View, frozen=True, gc=True):
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
    scheduling_gates: tuple[SchedulingGate, ...] = ()
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


class WorkloadContainerStatus(View, frozen=True):
    """How one container does."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodClaimStatus(View, frozen=True):
    """The claim that serves one of the pod's named claims."""

    name: str
    resource_claim_name: str = ""


class ExtendedClaimStatus(View, frozen=True):
    """The claim that serves the pod's extended resources."""

    resource_claim_name: str = ""


class WorkloadPodStatus(View, frozen=True):
    """How a pod does."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[WorkloadContainerStatus, ...] = ()
    init_container_statuses: tuple[WorkloadContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class WorkloadPod(Object, frozen=True, gc=True):
    """A pod as the bridge sees it."""

    spec: WorkloadPodSpec = WorkloadPodSpec()
    status: WorkloadPodStatus = WorkloadPodStatus()


OUR_PODS = PODS.viewed_as(WorkloadPod, intern=intern_metadata)
