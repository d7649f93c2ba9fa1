# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""NodeSet: Slurm's workers, one slurmd per pod."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from slinky.api.fields.conditions import HEALTH, ScaledStatus
from slinky.api.fields.refs import KeyRef, LocalRef
from slinky.api.fields.templates import Container, PodTemplate, Replicas
from slinky.api.fields.update_strategy import Drain, UpdateStrategy
from slinky.api.names import child_names, metadata
from slinky.api.names.group import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, Scaled, definition, described, free_form, immutable, list_atomic, rule
from slinky.kube.types import Key, Object, View

ScalingMode = Literal["StatefulSet", "DaemonSet"]
Retention = Literal["Retain", "Delete"]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Ssh(View, frozen=True):
    """Logging in to workers where one's job runs."""

    __rules__ = (rule("!self.enabled || has(self.sssdConfRef)", "sssdConfRef is required if ssh is enabled"),)

    enabled: Annotated[bool, described("Run sshd with pam_slurm_adopt on the workers.")] = False
    extra_sshd_config: Annotated[str, described("Text appended to sshd_config.")] = ""
    sssd_conf_ref: Annotated[KeyRef | None, described("Secret key with sssd.conf.")] = None


class NodeSetPartition(View, frozen=True):
    """A partition of Slurm with exactly these workers, named after the NodeSet."""

    enabled: Annotated[bool, described("Make the partition.")] = False
    config: Annotated[
        str, Meta(pattern=r"^[^\n\r]*$"), described("Settings of the partition, such as `State=UP MaxTime=60`.")
    ] = ""


class ClaimRetention(View, frozen=True):
    """What happens to the claims made from volumeClaimTemplates."""

    when_deleted: Annotated[Retention, described("When the NodeSet is deleted.")] = "Retain"
    when_scaled: Annotated[Retention, described("When the worker is scaled away.")] = "Retain"


class NodeSetSpec(View, frozen=True):
    """Desired state of a set of Slurm workers."""

    controller_ref: Annotated[LocalRef, immutable("controllerRef"), described("The Controller it belongs to.")]
    replicas: Annotated[Replicas, described("How many workers; ignored in DaemonSet mode.")] = 1
    scaling_mode: Annotated[ScalingMode, described("A number of workers, or one on every matching node.")] = (
        "StatefulSet"
    )
    slurmd: Annotated[Container, described("Merged over the slurmd container.")] = {}
    ssh: Annotated[Ssh, described("Logging in to workers.")] = Ssh()
    logfile: Annotated[Container, described("Merged over the log sidecar.")] = {}
    template: Annotated[
        PodTemplate, described("Merged over the pod; spec.hostname is the prefix of the Slurm node names.")
    ] = PodTemplate()
    extra_conf: Annotated[str, described("Settings of the Slurm nodes, Key=Value separated by spaces.")] = ""
    partition: Annotated[NodeSetPartition, described("A partition with exactly these workers.")] = NodeSetPartition()
    volume_claim_templates: Annotated[
        tuple[Annotated[dict[str, Any], free_form()], ...],
        list_atomic(),
        immutable("volumeClaimTemplates"),
        described("Claims that each worker gets, as in a StatefulSet."),
    ] = ()
    update_strategy: Annotated[UpdateStrategy, described("How workers get a new revision.")] = UpdateStrategy()
    drain: Annotated[Drain, described("What happens to jobs when a worker has to go.")] = Drain()
    revision_history_limit: Annotated[
        Count, described("How many old revisions to keep for going back; those in use are kept anyway.")
    ] = 0
    persistent_volume_claim_retention_policy: Annotated[ClaimRetention, described("What happens to the claims.")] = (
        ClaimRetention()
    )
    min_ready_seconds: Annotated[Count, described("How long a worker must be ready to count as available.")] = 0
    ordinal_padding: Annotated[int, Meta(ge=0, le=20), described("Digits of an ordinal, padded with zeros.")] = 0
    pin_to_node: Annotated[bool, described("A worker stays on the node it first ran on; StatefulSet mode only.")] = (
        False
    )
    workload_disruption_protection: Annotated[bool, described("Protect workers with jobs by a disruption budget.")] = (
        True
    )
    prune_slurm_node_records: Annotated[
        Literal["Never", "NodeNotFound"], described("Remove Slurm nodes whose Kubernetes node is gone.")
    ] = "Never"
    oversubscribe_node: Annotated[bool, described("Allow several workers on one Kubernetes node.")] = False


class NodeSetStatus(ScaledStatus, frozen=True):
    """Observed state of a set of Slurm workers."""

    desired: Annotated[int, described("How many workers there should be.")] = 0
    updated_replicas: Annotated[int, described("How many have the newest revision.")] = 0
    available_replicas: Annotated[int, described("How many were ready for minReadySeconds.")] = 0
    unavailable_replicas: Annotated[int, described("How many are missing or not available.")] = 0
    slurm_idle: Annotated[int, described("Idle in Slurm.")] = 0
    slurm_allocated: Annotated[int, described("Allocated or mixed in Slurm.")] = 0
    slurm_down: Annotated[int, described("Down in Slurm.")] = 0
    slurm_drain: Annotated[int, described("Draining or drained in Slurm.")] = 0
    node_set_hash: Annotated[str, described("Hash of the newest revision.")] = ""
    current_revision: Annotated[str, described("ControllerRevision that most workers have.")] = ""
    update_revision: Annotated[str, described("ControllerRevision that all workers are to have.")] = ""
    collision_count: Annotated[int | None, described("Hash collisions met so far.")] = None
    ordinal_to_node: Annotated[dict[str, str], described("Where each ordinal is pinned, with pinToNode.")] = {}


class NodeSet(Object, frozen=True):
    """A set of Slurm workers."""

    spec: NodeSetSpec
    status: NodeSetStatus = NodeSetStatus()

    @property
    def controller_key(self) -> Key:
        """The Controller it refers to."""
        return Key(self.metadata.namespace, self.spec.controller_ref.name)

    @property
    def per_node(self) -> bool:
        """One worker on every matching node, instead of a number of them."""
        return self.spec.scaling_mode == "DaemonSet"

    @property
    def slurm_name(self) -> str:
        """Its name in Slurm: of the node set, the feature and the partition."""
        return str(self.spec.template.spec.get("hostname") or "").strip("-") or self.metadata.name

    @property
    def ssh_config_name(self) -> str:
        """The ConfigMap with sshd_config."""
        return f"{self.metadata.name}-ssh-config"

    @property
    def reservation_name(self) -> str:
        """The reservation of a scheduled update."""
        return f"{metadata.RESERVATION_PREFIX}{self.metadata.name}"

    @property
    def selector(self) -> dict[str, str]:
        """Labels that pick its pods."""
        return child_names.SLURMD.selector(self.metadata.name)

    @property
    def labels(self) -> dict[str, str]:
        """Labels that its pods carry."""
        return {**child_names.SLURMD.labels(self.metadata.name), metadata.CLUSTER: self.spec.controller_ref.name}

    def padded(self, ordinal: int) -> str:
        """An ordinal as it stands in names."""
        return f"{ordinal:0{self.spec.ordinal_padding}d}"

    def pod_name(self, ordinal: int) -> str:
        """The worker of an ordinal."""
        return f"{self.metadata.name}-{self.padded(ordinal)}"

    def hostname(self, ordinal: int) -> str:
        """Its host name, which is its name in Slurm unless it shares the node's network."""
        prefix = str(self.spec.template.spec.get("hostname") or "")
        return f"{prefix}{self.padded(ordinal)}" if prefix else self.pod_name(ordinal)

    def ordinal(self, pod: str) -> int | None:
        """The ordinal in a worker's name, None if it has none."""
        digits = pod.removeprefix(f"{self.metadata.name}-")
        return int(digits) if digits != pod and digits.isascii() and digits.isdigit() else None

    def claim_name(self, template: str, identity: str) -> str:
        """The claim of a worker: `identity` is its padded ordinal, or its host name in DaemonSet mode."""
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
    scale=Scaled(),
    short_names=["nodesets", "nss", "slurmd"],
    categories=CATEGORIES,
)
