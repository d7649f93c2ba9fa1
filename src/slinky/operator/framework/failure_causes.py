# SPDX-License-Identifier: Apache-2.0
"""Why pods of a daemon do not run: one table of causes, recognized in the status and the events of pods. Pure.

Kubernetes reports the cause on pods, nodes and workloads. The condition Degraded of our object repeats it: the reason
is the cause, the message is the sentence of Kubernetes (the waiting reason, the scheduler's message, the end of the
output) with the next step.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from itertools import chain
from typing import NamedTuple

from slinky.kube.timestamps import age_seconds
from slinky.kube.views import ContainerStatus, KubeEvent, Node, Pod, ReplicaStatus
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.operator.framework.crash_message import describe_exit

#: Characters of Kubernetes' own message that are repeated.
MAX_DETAIL = 500
#: Restarts after which a container that runs again, and is not ready yet, still counts as failing.
REPEATED_RESTARTS = 2

# The kubelet alternates between the error and this form of it; without the prefix the condition does not change.
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: \w+)?(: )?')


#: What runtimes report about an image without a manifest for the node, and about a program that its kernel cannot run.
_OTHER_ARCHITECTURE = re.compile(
    r"no match for platform in manifest|no matching manifest for \w+/\w+|exec format error", re.IGNORECASE
)


class EndedBy(StrEnum):
    """Who can end a failure."""

    ADMINISTRATOR = "an administrator"
    TIME = "may end by itself"


class FailureCause(Enum):
    """A cause: its reason in conditions, what has happened, the next step, and how it is recognized.

    If pods fail for several causes, the first in this order is reported. `signs` are waiting reasons of containers or
    reasons of events. A cause is reported only after `patience` seconds, because these signs also occur in a normal
    start.
    """

    POD_NOT_CREATED = (
        "PodNotCreated",
        EndedBy.ADMINISTRATOR,
        "a pod cannot be created",
        "raise the quota, or change what the admission rejects",
        ("FailedCreate",),
        0.0,
    )
    WRONG_ARCHITECTURE = (
        "WrongArchitecture",
        EndedBy.ADMINISTRATOR,
        "the image of container {container} is for another architecture than node {node}",
        "use an image for the architecture of the node (`make images PLATFORMS=linux/amd64,linux/arm64` builds ours "
        "for both), or choose nodes by the label kubernetes.io/arch",
        (),
        0.0,
    )
    IMAGE_NOT_PULLED = (
        "ImageNotPulled",
        EndedBy.ADMINISTRATOR,
        "the image of container {container} cannot be pulled",
        "correct the image, or add imagePullSecrets",
        (
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
            "ErrImageNeverPull",
            "ImageInspectError",
            "RegistryUnavailable",
            "SignatureValidationFailed",
        ),
        0.0,
    )
    CONTAINER_NOT_CREATED = (
        "ContainerNotCreated",
        EndedBy.ADMINISTRATOR,
        "container {container} cannot be created",
        "create what it refers to, or correct its spec",
        ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError"),
        0.0,
    )
    VOLUME_NOT_MOUNTED = (
        "VolumeNotMounted",
        EndedBy.ADMINISTRATOR,
        "a volume cannot be mounted",
        "create the object that the volume refers to, or correct the volume",
        ("FailedMount", "FailedAttachVolume", "FailedMapVolume"),
        10.0,
    )
    SANDBOX_NOT_CREATED = (
        "SandboxNotCreated",
        EndedBy.ADMINISTRATOR,
        "its sandbox cannot be created",
        "repair the network or the container runtime of the node",
        ("FailedCreatePodSandBox",),
        5.0,
    )
    CRASH_LOOP = (
        "CrashLoop",
        EndedBy.ADMINISTRATOR,
        "container {container} exits",
        "more is in its log",
        ("CrashLoopBackOff",),
        0.0,
    )
    NODE_NOT_READY = (
        "NodeNotReady",
        EndedBy.TIME,
        "its node {node} is not ready",
        "repair the node, or delete it so that the pod is replaced",
        (),
        0.0,
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        EndedBy.TIME,
        "no node fits",
        "add nodes, or change the resources, node selector, tolerations or volumes of the pod",
        ("Unschedulable", "SchedulerError"),
        5.0,
    )
    POD_FAILED = (
        "PodFailed",
        EndedBy.TIME,
        "the kubelet has ended it",
        "the pod is replaced",
        (),
        0.0,
    )
    PROBE_FAILS = (
        "ProbeFails",
        EndedBy.TIME,
        "it runs and does not become ready",
        "more is in its log",
        ("Unhealthy",),
        60.0,
    )

    def __init__(
        self, reason: str, ended_by: EndedBy, sentence: str, step: str, signs: tuple[str, ...], patience: float
    ) -> None:
        self.reason = reason
        self.ended_by = ended_by
        self.sentence = sentence
        self.step = step
        self.signs = signs
        self.patience = patience


_ORDER = {cause: number for number, cause in enumerate(FailureCause)}
_BY_SIGN = {sign: cause for cause in FailureCause for sign in cause.signs}
#: Causes that another image ends.
IMAGE_FAILURES = frozenset({FailureCause.WRONG_ARCHITECTURE, FailureCause.IMAGE_NOT_PULLED})


class Failure(NamedTuple):
    """A cause, the pods that it affects, and what Kubernetes reports about the first of them."""

    cause: FailureCause
    pods: tuple[str, ...]
    detail: str
    container: str = ""
    node: str = ""

    def describe(self) -> str:
        """Return the failure as a sentence with the next step."""
        names = f"Pod {self.pods[0]}" if len(self.pods) == 1 else f"{len(self.pods)} pods, first {self.pods[0]}"
        text = self.cause.sentence.format(container=self.container, node=self.node)
        subject = f"{names}: {text}" if self.cause is not FailureCause.POD_NOT_CREATED else text
        return f"{subject}: {self.detail[:MAX_DETAIL] or 'no details are known'}; {self.cause.step}"

    def condition(self) -> ConditionState:
        """Return the state of the condition Degraded."""
        return ConditionState(True, self.cause.reason, self.describe())


def find_failure(
    pods: Iterable[Pod], nodes: Mapping[str, Node], events: Mapping[str, KubeEvent], now: datetime
) -> Failure | None:
    """Return the worst failure of these pods; `events` has the last event of pods, by uid."""
    failures = [
        failure
        for pod in pods
        if not pod.ready
        and (failure := pod_failure(pod, nodes.get(pod.spec.node_name), events.get(pod.metadata.uid), now))
    ]
    if not failures:
        return None
    first = min(failures, key=lambda failure: (_ORDER[failure.cause], failure.pods))
    return first._replace(pods=tuple(sorted(f.pods[0] for f in failures if f.cause is first.cause)))


def pod_failure(pod: Pod, node: Node | None, event: KubeEvent | None, now: datetime) -> Failure | None:
    """Return why one pod that is not ready does not run; None if nothing is wrong with it."""
    name, status = pod.metadata.name, pod.status
    if status.phase == "Failed" and not pod.metadata.deleting:
        detail = ": ".join(filter(None, (status.reason, status.message)))
        return Failure(FailureCause.POD_FAILED, (name,), detail)
    if node is not None and not node.ready and (problem := _node_problem(node)):
        return Failure(FailureCause.NODE_NOT_READY, (name,), problem, node=node.metadata.name)
    if pod.metadata.deleting or pod.finished:
        return None
    return _container_failure(pod) or _scheduling_failure(pod, now) or _event_failure(pod, event, now)


def is_unexplained(pod: Pod) -> bool:
    """Return whether a pod is not ready and its status does not say why; then its events may."""
    waits = not pod.ready and not pod.finished and not pod.metadata.deleting and bool(pod.spec.node_name)
    return waits and _container_failure(pod) is None


def creation_failure(name: str, detail: str) -> Failure:
    """Return the failure of a workload whose pods cannot be created."""
    return Failure(FailureCause.POD_NOT_CREATED, (name,), detail)


def refused_creation(status: ReplicaStatus) -> str:
    """Return why a Deployment cannot create a pod; a StatefulSet has no such condition and reports it as an event."""
    refusals = (item for item in status.conditions if (item.type, item.status) == ("ReplicaFailure", "True"))
    return next((item.message or item.reason for item in refusals), "")


def is_creation_failure(event: KubeEvent) -> bool:
    """Return whether an event reports that a pod cannot be created."""
    return _BY_SIGN.get(event.reason) is FailureCause.POD_NOT_CREATED


def with_failure(health: ObjectHealth, failure: Failure | None) -> ObjectHealth:
    """Return the health of an object with a failure of its pods."""
    if failure is None:
        return health
    degraded = failure.condition()
    return health._replace(
        ready=health.ready if health.ready.value else degraded._replace(value=False), degraded=degraded
    )


def describe_wait(pods: Iterable[Pod]) -> str:
    """Return what the first pod that is not ready waits for; empty if all are ready."""
    pod = min((pod for pod in pods if not pod.ready), key=lambda pod: pod.metadata.name, default=None)
    if pod is None:
        return ""
    if pod.metadata.deleting:
        return f"pod {pod.metadata.name} is terminating"
    if not pod.spec.node_name:
        return f"pod {pod.metadata.name} waits for a node"
    for status in chain(pod.status.init_container_statuses, pod.status.container_statuses):
        if not status.ready:
            return f"pod {pod.metadata.name} waits for container {status.name}{_waiting_reason(status)}"
    return f"pod {pod.metadata.name} is not ready"


def causes_table() -> Sequence[tuple[str, str, str, str]]:
    """Return the rows of the documentation: reason, what has happened, who ends it, next step."""
    return [
        (
            cause.reason,
            cause.sentence.replace(" {container}", "").replace(" {node}", ""),
            cause.ended_by.value,
            cause.step,
        )
        for cause in FailureCause
    ]


def _waiting_reason(status: ContainerStatus) -> str:
    return f" ({status.state.waiting.reason})" if status.state.waiting and status.state.waiting.reason else ""


def _node_problem(node: Node) -> str:
    """Return the message of a node that is not ready; empty for one that has not reported yet."""
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    return (ready.message or ready.reason) if ready else ""


def _container_failure(pod: Pod) -> Failure | None:
    """Return the worst failure of the containers, because a sidecar of the same image may fail without a message."""
    statuses = chain(pod.status.init_container_statuses, pod.status.container_statuses)
    failures = [failure for status in statuses if (failure := _status_failure(pod, status))]
    return min(failures, key=lambda failure: _ORDER[failure.cause], default=None)


def _status_failure(pod: Pod, status: ContainerStatus) -> Failure | None:
    waiting = status.state.waiting
    cause = _BY_SIGN.get(waiting.reason) if waiting else None
    if waiting and cause and cause is not FailureCause.CRASH_LOOP:
        detail = _BACK_OFF.sub("", waiting.message) or waiting.reason
    elif detail := _crash_detail(status):
        cause = FailureCause.CRASH_LOOP
    else:
        return None
    if _OTHER_ARCHITECTURE.search(detail):
        cause = FailureCause.WRONG_ARCHITECTURE
    return Failure(cause, (pod.metadata.name,), detail, status.name, pod.spec.node_name)


def _crash_detail(status: ContainerStatus) -> str:
    """Return what a container printed that exits again and again; empty if it does not."""
    state, last = status.state, status.last_state.terminated
    if state.terminated is not None:
        return describe_exit(state.terminated) if state.terminated.exit_code and status.restart_count else ""
    if last is None:
        return ""
    if state.waiting is not None:
        return describe_exit(last) if _BY_SIGN.get(state.waiting.reason) is FailureCause.CRASH_LOOP else ""
    starting = not status.ready and not status.started and status.restart_count >= REPEATED_RESTARTS
    return describe_exit(last) if starting and last.exit_code else ""


def _scheduling_failure(pod: Pod, now: datetime) -> Failure | None:
    condition = next((item for item in pod.status.conditions if item.type == "PodScheduled"), None)
    if condition is None or condition.status == "True" or condition.reason not in FailureCause.UNSCHEDULABLE.signs:
        return None
    if age_seconds(condition.last_transition_time, now) < FailureCause.UNSCHEDULABLE.patience:
        return None
    return Failure(FailureCause.UNSCHEDULABLE, (pod.metadata.name,), condition.message)


def _event_failure(pod: Pod, event: KubeEvent | None, now: datetime) -> Failure | None:
    cause = _BY_SIGN.get(event.reason) if event and event.type == "Warning" else None
    if event is None or cause is None or age_seconds(pod.status.start_time or None, now) < cause.patience:
        return None
    return Failure(cause, (pod.metadata.name,), " ".join(event.message.split()))
