# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""NodeSet: a set of Slurm workers, one slurmd per pod."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus
from slinky.api.fields.conditions import HEALTH, ScaledStatus
from slinky.api.fields.drain import Drain
from slinky.api.fields.refs import KeyRef, LocalRef
from slinky.api.fields.templates import Container, PodTemplate, VolumeClaimTemplate, parse_volume_claim_template
from slinky.api.fields.update_strategy import UpdateStrategy
from slinky.api.names import child_names, metadata
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.bounds import NODES_MAX
from slinky.kube.resource import Resource
from slinky.kube.schema import (
    AGE,
    Column,
    ScaleSubresource,
    definition,
    described,
    free_form,
    immutable,
    list_atomic,
    rule,
)
from slinky.kube.types import Key, Object, View

ScalingMode = Literal["StatefulSet", "DaemonSet"]
Retention = Literal["Retain", "Delete"]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


#: A Slurm cluster can have this many nodes.
Workers = Annotated[int, Meta(ge=0, le=NODES_MAX)]


class Ssh(View, frozen=True):
    """Settings for ssh access to workers; users can log in to workers that run one of their jobs."""

    __rules__ = (rule("!self.enabled || has(self.sssdConfRef)", "sssdConfRef is required if ssh is enabled"),)

    enabled: Annotated[bool, described("Run sshd with pam_slurm_adopt on the workers.")] = False
    extra_sshd_config: Annotated[str, described("Text appended to sshd_config.")] = ""
    sssd_conf_ref: Annotated[
        KeyRef | None, described("Secret key with sssd.conf, which configures where user accounts come from.")
    ] = None


class NodeSetPartition(View, frozen=True):
    """A Slurm partition that contains exactly these workers and has the name of the NodeSet."""

    enabled: Annotated[bool, described("Create the partition.")] = False
    config: Annotated[
        str, Meta(pattern=r"^[^\n\r]*$"), described("Settings of the partition, such as `State=UP MaxTime=60`.")
    ] = ""


class ClaimRetention(View, frozen=True):
    """Whether the claims created from volumeClaimTemplates are kept or deleted."""

    when_deleted: Annotated[Retention, described("What happens to the claims when the NodeSet is deleted.")] = "Retain"
    when_scaled: Annotated[Retention, described("What happens to the claims of a worker that a scale-in removes.")] = (
        "Retain"
    )


class NodeSetSpec(View, frozen=True):
    """Desired state of a set of Slurm workers."""

    __rules__ = (
        rule(
            "!has(self.autoscaling) || !has(self.scalingMode) || self.scalingMode == 'StatefulSet'",
            "autoscaling requires scalingMode StatefulSet: DaemonSet mode has one worker on every matching node",
        ),
    )

    controller_ref: Annotated[
        LocalRef, immutable("controllerRef"), described("Controller of the Slurm cluster to which the workers belong.")
    ]
    replicas: Annotated[
        Workers, described("Number of workers; ignored in DaemonSet mode. With autoscaling, the operator sets it.")
    ] = 1
    autoscaling: Annotated[
        Autoscaling | None,
        described("Lets the operator set replicas to what running and pending jobs need. Only in StatefulSet mode."),
    ] = None
    scaling_mode: Annotated[
        ScalingMode,
        described("StatefulSet: as many workers as replicas. DaemonSet: one worker on every matching node."),
    ] = "StatefulSet"
    slurmd: Annotated[
        Container, described("A core/v1 Container; its fields override those of the slurmd container.")
    ] = {}
    ssh: Annotated[Ssh, described("Settings for ssh access to workers.")] = Ssh()
    logfile: Annotated[Container, described("A core/v1 Container; its fields override those of the log sidecar.")] = {}
    template: Annotated[
        PodTemplate,
        described(
            "Settings that override those of the pods; spec.hostname is the prefix of the names of the Slurm nodes."
        ),
    ] = PodTemplate()
    extra_conf: Annotated[
        str, described("Settings of the Slurm nodes, as Key=Value pairs that are separated by spaces.")
    ] = ""
    partition: Annotated[NodeSetPartition, described("A Slurm partition that contains exactly these workers.")] = (
        NodeSetPartition()
    )
    volume_claim_templates: Annotated[
        tuple[Annotated[dict[str, Any], free_form()], ...],
        list_atomic(),
        immutable("volumeClaimTemplates"),
        described("Templates of the PersistentVolumeClaims that each worker gets, as in a StatefulSet."),
    ] = ()
    update_strategy: Annotated[UpdateStrategy, described("How workers are replaced by workers of a new revision.")] = (
        UpdateStrategy()
    )
    drain: Annotated[Drain, described("How jobs are treated when the operator removes their worker.")] = Drain()
    revision_history_limit: Annotated[
        Count, described("Number of old revisions to keep for a rollback; revisions in use are always kept.")
    ] = 0
    persistent_volume_claim_retention_policy: Annotated[
        ClaimRetention, described("Whether the claims created from volumeClaimTemplates are kept or deleted.")
    ] = ClaimRetention()
    min_ready_seconds: Annotated[
        Count, described("How many seconds a worker must be ready before it counts as available.")
    ] = 0
    ordinal_padding: Annotated[
        int, Meta(ge=0, le=20), described("Minimum number of digits of an ordinal; shorter ones are padded with zeros.")
    ] = 0
    pin_to_node: Annotated[
        bool, described("Always run a worker on the node where it ran first. Only in StatefulSet mode.")
    ] = False
    workload_disruption_protection: Annotated[
        bool, described("Protect workers that run jobs from eviction, with a PodDisruptionBudget.")
    ] = True
    prune_slurm_node_records: Annotated[
        Literal["Never", "NodeNotFound"],
        described("NodeNotFound: delete a Slurm node when its Kubernetes node no longer exists. Never: keep it."),
    ] = "Never"
    oversubscribe_node: Annotated[bool, described("Allow several workers of the NodeSet on one Kubernetes node.")] = (
        False
    )


class NodeSetStatus(ScaledStatus, frozen=True):
    """Observed state of a set of Slurm workers."""

    desired: Annotated[int, described("Desired number of workers.")] = 0
    updated_replicas: Annotated[int, described("Number of workers that have the newest revision.")] = 0
    available_replicas: Annotated[
        int, described("Number of workers that have been ready for at least minReadySeconds.")
    ] = 0
    unavailable_replicas: Annotated[int, described("Number of workers that are missing or not available.")] = 0
    slurm_idle: Annotated[int, described("Number of workers that are idle in Slurm.")] = 0
    slurm_allocated: Annotated[int, described("Number of workers that are allocated or mixed in Slurm.")] = 0
    slurm_down: Annotated[int, described("Number of workers that are down in Slurm.")] = 0
    slurm_drain: Annotated[int, described("Number of workers that are draining or drained in Slurm.")] = 0
    node_set_hash: Annotated[str, described("Hash of the newest revision.")] = ""
    current_revision: Annotated[str, described("Name of the ControllerRevision that most workers have.")] = ""
    update_revision: Annotated[str, described("Name of the newest ControllerRevision, the target of updates.")] = ""
    collision_count: Annotated[int | None, described("Number of hash collisions between revisions so far.")] = None
    autoscaling: Annotated[
        AutoscalingStatus | None, described("What the autoscaler has done, and what it would do next.")
    ] = None
    ordinal_to_node: Annotated[
        dict[str, str], described("Kubernetes node of each worker by ordinal, if pinToNode is true.")
    ] = {}


class NodeSet(Object, frozen=True):
    """A set of Slurm workers."""

    spec: NodeSetSpec
    status: NodeSetStatus = NodeSetStatus()

    @property
    def controller_key(self) -> Key:
        """Key of the Controller that it refers to."""
        return Key(self.metadata.namespace, self.spec.controller_ref.name)

    @property
    def per_node(self) -> bool:
        """Whether it is in DaemonSet mode: one worker on every matching node."""
        return self.spec.scaling_mode == "DaemonSet"

    @property
    def autoscaling(self) -> Autoscaling | None:
        """Its autoscaling policy, if it has one and is in StatefulSet mode."""
        return None if self.per_node else self.spec.autoscaling

    @property
    def slurm_name(self) -> str:
        """Name of its node set, feature and partition in Slurm."""
        return str(self.spec.template.spec.get("hostname") or "").strip("-") or self.metadata.name

    @property
    def ssh_config_name(self) -> str:
        """Name of the ConfigMap with sshd_config."""
        return f"{self.metadata.name}-ssh-config"

    @property
    def reservation_name(self) -> str:
        """Name of the Slurm reservation of a scheduled update."""
        return f"{metadata.RESERVATION_PREFIX}{self.metadata.name}"

    @property
    def selector(self) -> dict[str, str]:
        """Labels that select its pods."""
        return child_names.SLURMD.selector(self.metadata.name)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its pods."""
        return {**child_names.SLURMD.labels(self.metadata.name), metadata.CLUSTER: self.spec.controller_ref.name}

    def padded(self, ordinal: int) -> str:
        """An ordinal as it appears in names, padded with zeros."""
        return f"{ordinal:0{self.spec.ordinal_padding}d}"

    def pod_name(self, ordinal: int) -> str:
        """Name of the pod with this ordinal."""
        return f"{self.metadata.name}-{self.padded(ordinal)}"

    def hostname(self, ordinal: int) -> str:
        """Host name of the worker with this ordinal: its name in Slurm unless it uses the node's network."""
        prefix = str(self.spec.template.spec.get("hostname") or "")
        return f"{prefix}{self.padded(ordinal)}" if prefix else self.pod_name(ordinal)

    def ordinal(self, pod: str) -> int | None:
        """The ordinal in the name of a pod, None if it has none."""
        digits = pod.removeprefix(f"{self.metadata.name}-")
        return int(digits) if digits != pod and digits.isascii() and digits.isdigit() else None

    @property
    def claim_templates(self) -> tuple[VolumeClaimTemplate, ...]:
        """Its claim templates, parsed."""
        return tuple(map(parse_volume_claim_template, self.spec.volume_claim_templates))

    def claim_name(self, template: str, identity: str) -> str:
        """Name of a worker's claim; `identity` is its padded ordinal, or its host name in DaemonSet mode."""
        return f"{template}-{self.metadata.name}-{identity}"


NODE_SETS = Resource(API_VERSION, "NodeSet", "nodesets", NodeSet)

DEFINITION = definition(
    GROUP,
    VERSION,
    "NodeSet",
    "nodesets",
    spec=NodeSetSpec,
    status=NodeSetStatus,
    description="A set of Slurm workers, one slurmd per pod.",
    columns=[
        Column("DESIRED", "integer", ".status.desired"),
        Column("REPLICAS", "integer", ".status.replicas"),
        Column("UPDATED", "integer", ".status.updatedReplicas"),
        Column("READY", "integer", ".status.readyReplicas"),
        Column("IDLE", "integer", ".status.slurmIdle", wide=True),
        Column("ALLOCATED", "integer", ".status.slurmAllocated", wide=True),
        Column("DOWN", "integer", ".status.slurmDown", wide=True),
        Column("DRAIN", "integer", ".status.slurmDrain", wide=True),
        HEALTH[-1],
        AGE,
    ],
    scale=ScaleSubresource(),
    short_names=["nodesets", "nss", "slurmd"],
    categories=CATEGORIES,
)
