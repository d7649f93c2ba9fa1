# SPDX-License-Identifier: Apache-2.0
"""Every reason that users see on pods and nodes: what it means, and what to do about it.

`Reason` has the reasons of the bridge itself; conditions and events are built from it. `job_ends` has the reasons of
pods whose job has ended, `rejections` explains Slurm's errors, and Slurm's pending reasons are in
`slinky.insight.pending_reasons`. No other module contains a reason as a string. `docs/bridge/reasons.md` is generated
from these tables.
"""

from dataclasses import dataclass
from enum import Enum

from slinky.bridge import names


@dataclass(frozen=True, slots=True)
class ConditionText:
    """Status, reason and message of a condition; a status of None is Unknown.

    `warning` is the type of the event that comes with the condition.
    """

    status: bool | None
    reason: str
    message: str
    warning: bool = False


class Severity(Enum):
    """The type of the event that comes with a reason."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Subject(Enum):
    """The kind of object that a reason is written to."""

    POD = "pod"
    NODE = "node"


_NORMAL, _WARNING = Severity.NORMAL, Severity.WARNING


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """One row of the table of reasons.

    `sentence` is a template for `str.format`; `status` is the status of the condition; `ends_pod` says that the bridge
    lets the pod end with it.
    """

    token: str
    sentence: str
    step: str = ""
    severity: Severity = _NORMAL
    status: bool | None = False
    ends_pod: bool = False
    subject: Subject = Subject.POD


class Reason(Enum):
    """The reasons that the bridge itself writes. Several rows may share a token, with a sentence for each case."""

    # --- before there is a job
    GROUP_MISSING = ReasonRow(
        "GroupMissing", "The object that created or groups the pod is not visible yet: {problem}."
    )
    GANG_INCOMPLETE = ReasonRow(
        "GangIncomplete", "{count} of {needed} pods of the gang exist; all start together or none. {hint}"
    )
    INVALID_OPTION = ReasonRow(
        "InvalidOption",
        "A job option cannot be used: {problem}.",
        "Correct the annotation or the request that the message names.",
        _WARNING,
    )
    OPTION_NOTE = ReasonRow("JobOption", "Check the job options of the workload: {note}.", "", _WARNING)
    NOT_SUPPORTED = ReasonRow(
        "NotSupported", "The pod or its group requests something that Slurm cannot provide: {problem}.", "", _WARNING
    )
    CLAIM_PENDING = ReasonRow("ClaimPending", "A device claim of the pod is not usable yet: {problem}.", "", _WARNING)
    VOLUME_MISSING = ReasonRow("VolumePending", "A volume of the pod is not ready yet: {problem}.", "", _WARNING)
    NODES_FULL = ReasonRow(
        "InsufficientNodeResources",
        "No job is submitted or changed: {free} of the {needed} nodes that the pods need have room beside the pods of "
        "other schedulers. For example {problem}. The bridge submits the pods as soon as there is room.",
        "Request less, or move other pods off the nodes.",
        _WARNING,
    )
    NODES_AVOIDED = ReasonRow(
        "NodeUnsuitable",
        "No job is submitted or changed: {free} of the {needed} nodes that the pods need are left. Host {host} was "
        "given back a short time ago: {problem}. The bridge tries it again when the host changes, or later.",
        "Correct what the message names.",
        _WARNING,
    )
    NEVER_FITS = ReasonRow(
        "SlurmRefused",
        "No node can run the pods, so no job is submitted or changed. {problem}",
        "Request less; check labels, taints, host ports and GRES.",
        _WARNING,
    )
    SUBMISSIONS_LIMITED = ReasonRow(
        "SubmissionsLimited",
        "Slurm has rejected many jobs of namespace {namespace} in the last minutes, so the bridge submits further pods "
        "of the namespace slowly.",
        "Correct or delete the pods with the reason SlurmRefused.",
        _WARNING,
    )
    SLURM_REFUSED = ReasonRow("SlurmRefused", "Slurm rejected the job. {explanation}", "", _WARNING)
    SLURM_UNREACHABLE = ReasonRow(
        "SlurmUnreachable", "Slurm does not answer. The bridge submits the pod as soon as Slurm answers."
    )
    SLURM_UNKNOWN = ReasonRow(
        "SlurmUnknown",
        "The state of Slurm job {job} of the same gang is not known. The pod waits until Slurm reports it.",
        status=None,
    )

    # --- while the job is pending
    PENDING = ReasonRow("Pending", "Slurm job {job} is pending and Slurm has not reported why.")
    GANG_SHRUNK = ReasonRow(
        "GangIncomplete", "{count} of {needed} pods of the gang are left; Slurm job {job} is cancelled.", "", _WARNING
    )
    GANG_RESHAPED = ReasonRow(
        "GangReshaped", "The gang has other roles than its pending job: {problem}. The bridge replaces the job."
    )
    JOB_OUTGROWN = ReasonRow(
        "JobOutgrown",
        "The pending job cannot be updated to what the pods request now: {problem}. The bridge replaces the job.",
    )
    UPDATE_REFUSED = ReasonRow(
        "SlurmRefused",
        "Slurm rejected the change of Slurm job {job}, which stays pending as it was. {explanation}",
        "",
        _WARNING,
    )

    # --- when the job has its nodes
    ALLOCATED = ReasonRow("Allocated", "Slurm job {job} has node {node}.", status=True)
    SUSPENDED = ReasonRow(
        "Suspended",
        "Slurm job {job} is suspended. Running containers continue; pods without a node wait.",
        "Resume the job with `scontrol resume`.",
        _WARNING,
        status=None,
    )
    GANG_BROKEN = ReasonRow(
        "GangIncomplete",
        "A pod of the gang was removed before Slurm job {job} started; all start together or none.",
        "",
        _WARNING,
    )
    NODE_NOT_READY = ReasonRow(
        "NodeNotReady",
        "Slurm job {job} has node {node}, which {problem}. If that lasts, the bridge cancels the job and submits the "
        "pods again.",
    )
    NODE_CLEARING = ReasonRow(
        "NodeClearing", "Slurm job {job} has node {node}, where pod {pod} of an earlier job is still being stopped."
    )
    NODE_FULL = ReasonRow(
        "NodeClearing",
        "Slurm job {job} has a part of node {node}, where pod {pod} of an earlier job still uses {lack}.",
    )
    NODE_OCCUPIED = ReasonRow(
        "InsufficientNodeResources",
        "The nodes that Slurm allocated cannot be used: pods of other schedulers leave too little room on {problem}. "
        "The bridge submits the pods again without this node.",
        "Request less, or move other pods off the node.",
        _WARNING,
    )
    NODE_UNSUITABLE = ReasonRow(
        "NodeUnsuitable",
        "The nodes that Slurm allocated cannot be used: {problem}. The bridge submits the pods again.",
        "",
        _WARNING,
    )
    DEVICES_HELD = ReasonRow("DevicesHeld", "Slurm job {job} has its nodes, but {problem}.")
    VOLUME_PENDING = ReasonRow("VolumePending", "Slurm job {job} has its nodes, but {problem}.")

    # --- when the pods run
    KUBELET_REJECTED = ReasonRow(
        "KubeletRejected",
        "The kubelet of node {node} rejected the pod of Slurm job {job} ({reason}): {problem}. The bridge does not use "
        "this node for such pods for a while.",
        "A Kubernetes Job creates a new pod; create a pod without an owner again.",
        _WARNING,
        ends_pod=True,
    )
    LOST_JOB_NOT_REPLACED = ReasonRow(
        "LostJobNotReplaced",
        "{end} The pod keeps running without a job: {problem}. The bridge tries again to replace the job.",
        "",
        _WARNING,
        status=None,
    )
    EVICTION_LIMITED = ReasonRow(
        "EvictionLimited",
        "{end} The pod keeps running, because the bridge has reached its limit of evictions after lost or failed jobs; "
        "it is evicted when the limit allows it.",
        "Check whether slurmctld lost its state, or whether many nodes are down in Slurm.",
        _WARNING,
        status=None,
    )
    POD_GIVEN_UP = ReasonRow(
        "PodGivenUp",
        "Node {node} does not answer, so the end of the deleted pod's containers cannot be confirmed. The bridge "
        "removes its finalizer and ends the Slurm job.",
        "",
        _WARNING,
        ends_pod=True,
    )

    # --- nodes
    OPEN = ReasonRow("Open", "Slurm schedules jobs on this host.", status=True, subject=Subject.NODE)
    OPEN_UNTAINTED = ReasonRow(
        "OpenUntainted",
        "Slurm schedules jobs on this host. The node has no taint, because pod {pod} runs here or has no other node.",
        f"Give the pod a toleration of the taint {names.MANAGED_TAINT}, or move it to a node that Slurm does not use.",
        status=True,
        subject=Subject.NODE,
    )
    WORKER_ON_NODE = ReasonRow(
        "WorkerOnNode",
        "The Slurm worker {worker} already offers this node to Slurm, so the node is not registered a second time.",
        f"Remove the label {names.EXTERNAL_LABEL}. To let pods use the host of the worker, see docs/bridge/hybrid.md.",
        _WARNING,
        subject=Subject.NODE,
    )
    CLOSED = ReasonRow("Closed", "The bridge has drained this host in Slurm: {problem}.", subject=Subject.NODE)
    DRAINED = ReasonRow("Drained", "The host is drained in Slurm: {problem}.", subject=Subject.NODE)
    DOWN = ReasonRow("Down", "The host is down in Slurm: {problem}.", subject=Subject.NODE)
    NO_ADDRESS = ReasonRow(
        "NoAddress",
        "The node has no IP address of type InternalIP. It is not registered in Slurm, because slurmctld would stall "
        "on a name that it cannot resolve.",
        "Configure the node's address.",
        _WARNING,
        subject=Subject.NODE,
    )
    NO_PARTITION = ReasonRow(
        "NoPartition",
        "Slurm has no partition {partitions}, so the node is not registered.",
        f"Change the annotation {names.PARTITIONS_ANNOTATION}, or add the partition to slurm.conf.",
        _WARNING,
        subject=Subject.NODE,
    )
    DEVICES_UNCLEAR = ReasonRow(
        "DevicesUnclear", "The node is not registered in Slurm. {problem}", "", _WARNING, subject=Subject.NODE
    )
    BAD_NODE = ReasonRow(
        "BadNode", "The node cannot be registered in Slurm: {problem}.", "", _WARNING, subject=Subject.NODE
    )
    SIZE_REFUSED = ReasonRow(
        "SizeRefused", "Slurm did not accept the size of the node. {problem}", "", _WARNING, subject=Subject.NODE
    )
    DEVICES_DIFFER = ReasonRow(
        "DevicesDiffer",
        "{problem}. Pods use only the devices that both have, and jobs that need more do not get this host.",
        "Change gres.conf or the device profiles.",
        _WARNING,
        subject=Subject.NODE,
    )
    HOST_TAKEN = ReasonRow(
        "HostTaken",
        "The bridge of another cluster registered host {host} in Slurm, so this node cannot be registered.",
        "Delete that host if the other cluster no longer exists, or give this node another name in Slurm with the "
        f"label {names.HOST_LABEL}.",
        _WARNING,
        subject=Subject.NODE,
    )
    HOST_NAME_CLAIMED = ReasonRow(
        "HostNameClaimed",
        "Node {owner} already has the Slurm host {host}, so this node gets no pods.",
        f"Give this node another name in Slurm with the label {names.HOST_LABEL}; two nodes cannot share a host.",
        _WARNING,
        subject=Subject.NODE,
    )
    FOREIGN_PODS = ReasonRow(
        "ForeignPods",
        f"Pods of other schedulers run on this node beside the jobs of Slurm: {{pods}}. They tolerate the taint "
        f"{names.MANAGED_TAINT} or were bound directly; Slurm does not account for them.",
        "Move them to other nodes, or reject such tolerations by a policy.",
        _WARNING,
        subject=Subject.NODE,
    )
    HOST_REFUSED = ReasonRow(
        "SlurmRefused", "Slurm rejected a change of this node's host: {problem}.", "", _WARNING, subject=Subject.NODE
    )

    @property
    def token(self) -> str:
        """The reason as conditions and events show it."""
        return self.value.token

    def text(self, **details: object) -> ConditionText:
        """The condition of this reason; `details` fill the placeholders of the sentence."""
        row = self.value
        message = f"{row.sentence.format(**details)} {row.step}".strip()
        return ConditionText(row.status, row.token, message, row.severity is Severity.WARNING)


#: Reason of the event for a pod that got its node: the same as the event of kube-scheduler.
SCHEDULED_EVENT = "Scheduled"
