# SPDX-License-Identifier: Apache-2.0
"""Why pods of a daemon do not run, in the words of Kubernetes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.operator.samples import NOW, ago, node, node_set, node_set_snapshot
from tests.unit.operator.samples import pod as ready_pod

from slinky.kube.types import Condition
from slinky.kube.views import KubeEvent, Pod, ReplicaStatus
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.operator.framework.failure_causes import (
    Failure,
    FailureCause,
    causes_table,
    creation_failure,
    describe_wait,
    find_failure,
    is_creation_failure,
    is_unexplained,
    refused_creation,
    with_failure,
)
from slinky.operator.nodeset.actions import ExecutionReport
from slinky.operator.nodeset.status import creation_refusal, health

PAGE = Path(__file__).parents[4] / "docs/operator/monitoring.md"
PULL = "rpc error: code = NotFound desc = failed to resolve image: not found"
FATAL = "slurmd: error: x\nslurmd: fatal: /sys/fs/cgroup is not a valid cgroup2 mountpoint\n"
NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."
LOST = Condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def exited(code: int = 1, message: str = FATAL, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "reason": reason}}


def pod(name: str = "gpu-0", node_name: str = "node1", **status: Any) -> Pod:
    container = {"name": "slurmd", **status.pop("container", {})}
    init = status.pop("init", None)
    body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "deletionTimestamp": status.pop("gone", None),
        },
        "spec": {"nodeName": node_name},
        "status": {"phase": "Pending", "startTime": ago(30), "containerStatuses": [container], **status},
    }
    if init:
        body["status"]["initContainerStatuses"] = [init]
    return msgspec.convert(body, Pod)


def unscheduled(seconds: float, reason: str = "Unschedulable") -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": NO_NODE}
    return pod(node_name="", conditions=[{**condition, "lastTransitionTime": ago(seconds)}])


def event(reason: str, message: str, kind: str = "Warning") -> KubeEvent:
    return msgspec.convert({"metadata": {"name": "e"}, "type": kind, "reason": reason, "message": message}, KubeEvent)


CREATING = pod(container={"state": waiting("ContainerCreating")})
MOUNT = event("FailedMount", 'MountVolume.SetUp failed for volume "certs" : secret "tls" not found')
LOOP = {"restartCount": 3, "state": waiting("CrashLoopBackOff"), "lastState": exited()}

# law, pod, last event, cause, words of the message
CASES: list[tuple[str, Pod, KubeEvent | None, FailureCause | None, str]] = [
    ("pulls", pod(container={"state": waiting("ErrImagePull", PULL)}), None, FailureCause.IMAGE_NOT_PULLED, PULL),
    (
        "backs off",
        pod(container={"state": waiting("ImagePullBackOff", f'Back-off pulling image "x:1": ErrImagePull: {PULL}')}),
        None,
        FailureCause.IMAGE_NOT_PULLED,
        f"cannot be pulled: {PULL};",
    ),
    (
        "finds no image for its node",
        pod(container={"state": waiting("ErrImagePull", f"{PULL}: no match for platform in manifest: not found")}),
        None,
        FailureCause.WRONG_ARCHITECTURE,
        "the image of container slurmd is for another architecture than node node1: rpc error",
    ),
    (
        "has a program that the kernel cannot run",
        pod(container={**LOOP, "lastState": exited(255, "exec /usr/bin/tini: exec format error\n")}),
        None,
        FailureCause.WRONG_ARCHITECTURE,
        "exec /usr/bin/tini: exec format error; use an image for the architecture of the node",
    ),
    (
        "has a sidecar of the same image that reports nothing",
        pod(
            container={**LOOP, "lastState": exited(255, "exec /usr/bin/tini: exec format error\n")},
            init={"name": "logfile", **LOOP, "lastState": exited(255, "")},
        ),
        None,
        FailureCause.WRONG_ARCHITECTURE,
        "container slurmd",
    ),
    (
        "pulls for an init container",
        pod(init={"name": "logfile", "state": waiting("InvalidImageName", "bad")}),
        None,
        FailureCause.IMAGE_NOT_PULLED,
        "container logfile",
    ),
    (
        "refers to a missing Secret",
        pod(container={"state": waiting("CreateContainerConfigError", 'secret "x" not found')}),
        None,
        FailureCause.CONTAINER_NOT_CREATED,
        'secret "x" not found',
    ),
    ("mounts", CREATING, MOUNT, FailureCause.VOLUME_NOT_MOUNTED, 'secret "tls" not found'),
    ("mounted", CREATING, event("Pulled", "image is present", "Normal"), None, ""),
    ("is created", CREATING, None, None, ""),
    (
        "has no network",
        CREATING,
        event("FailedCreatePodSandBox", "no IP addresses available"),
        FailureCause.SANDBOX_NOT_CREATED,
        "no IP addresses",
    ),
    (
        "crashes",
        pod(container=LOOP),
        None,
        FailureCause.CRASH_LOOP,
        "/sys/fs/cgroup is not a valid cgroup2 mountpoint;",
    ),
    (
        "crashes and starts again",
        pod(container={"restartCount": 2, "state": {"running": {}}, "lastState": exited()}),
        None,
        FailureCause.CRASH_LOOP,
        "not a valid cgroup2",
    ),
    (
        "has crashed once",
        pod(container={"restartCount": 1, "state": {"running": {}}, "lastState": exited()}),
        None,
        None,
        "",
    ),
    (
        "has recovered",
        pod(container={"restartCount": 9, "started": True, "state": {"running": {}}, "lastState": exited()}),
        None,
        None,
        "",
    ),
    (
        "prints no error",
        pod(container={**LOOP, "lastState": exited(message="line 1\nthe last line\n")}),
        None,
        FailureCause.CRASH_LOOP,
        "exits: the last line;",
    ),
    (
        "prints nothing",
        pod(container={**LOOP, "lastState": exited(137, "", "OOMKilled")}),
        None,
        FailureCause.CRASH_LOOP,
        "exit code 137 (OOMKilled)",
    ),
    ("fits nowhere", unscheduled(6), None, FailureCause.UNSCHEDULABLE, NO_NODE),
    ("fits nowhere for a moment", unscheduled(1), None, None, ""),
    ("is gated", unscheduled(60, "SchedulingGated"), None, None, ""),
    ("is on a lost node", pod(node_name="lost", phase="Running"), None, FailureCause.NODE_NOT_READY, "stopped posting"),
    (
        "ends on a lost node",
        pod(node_name="lost", phase="Running", gone=ago(9)),
        None,
        FailureCause.NODE_NOT_READY,
        "lost is not ready",
    ),
    ("ends", pod(phase="Running", gone=ago(9), container={"state": exited()}), None, None, ""),
    ("ends with an error", pod(phase="Failed", gone=ago(9)), None, None, ""),
    (
        "was evicted",
        pod(phase="Failed", reason="Evicted", message="low on memory"),
        None,
        FailureCause.POD_FAILED,
        "Evicted: low on memory",
    ),
    (
        "does not answer",
        pod(phase="Running", startTime=ago(90), container={"started": True}),
        event("Unhealthy", "Readiness probe failed: 503"),
        FailureCause.PROBE_FAILS,
        "probe failed: 503",
    ),
    (
        "does not answer yet",
        pod(phase="Running", container={"started": True}),
        event("Unhealthy", "Readiness probe failed: 503"),
        None,
        "",
    ),
]
NODES = {
    "node1": node("node1", conditions=(Condition("Ready", "True"),)),
    "lost": node("lost", conditions=(LOST,)),
}


def found(*pods: Pod, last: KubeEvent | None = None) -> Failure | None:
    events = {pod.metadata.uid: last for pod in pods} if last else {}
    return find_failure(pods, NODES, events, NOW)


@pytest.mark.parametrize(("law", "failing", "last", "cause", "words"), CASES, ids=[case[0] for case in CASES])
def test_the_cause_is_reported_in_the_words_of_kubernetes(
    law: str, failing: Pod, last: KubeEvent | None, cause: FailureCause | None, words: str
) -> None:
    failure = found(failing, last=last)
    assert (failure.cause if failure else None) is cause
    if failure is not None:
        state = failure.condition()
        assert (state.value, state.reason) == (True, failure.cause.reason)
        assert words in state.message
        assert "gpu-0" in state.message
        assert state.message.endswith(failure.cause.step)


def test_every_cause_of_pods_has_a_case() -> None:
    assert {case[3] for case in CASES} - {None} == set(FailureCause) - {FailureCause.POD_NOT_CREATED}


def test_a_ready_pod_has_no_failure() -> None:
    crashed = pod(container=LOOP, conditions=[{"type": "Ready", "status": "True"}])
    assert found(crashed) is None
    assert describe_wait([crashed]) == ""


def test_the_worst_cause_is_reported_with_the_number_of_its_pods() -> None:
    pods = [unscheduled(9), pod("gpu-2", container=LOOP), pod("gpu-1", container=LOOP)]
    for order in (pods, pods[::-1]):
        failure = found(*order)
        assert failure is not None
        assert failure.describe().startswith("2 pods, first gpu-1: container slurmd exits: ")


@pytest.mark.parametrize(
    ("law", "failing", "unexplained"),
    [
        ("waits", CREATING, True),
        ("has no node", unscheduled(9), False),
        ("says it", pod(container=LOOP), False),
        ("ends", pod(gone=ago(1)), False),
        ("has ended", pod(phase="Failed"), False),
    ],
)
def test_events_are_read_only_if_the_status_says_nothing(law: str, failing: Pod, unexplained: bool) -> None:
    assert is_unexplained(failing) is unexplained


def test_a_workload_that_cannot_create_pods_is_recognized_by_its_condition_or_its_event() -> None:
    refused = Condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota: pods")
    assert refused_creation(ReplicaStatus(conditions=(refused,))) == "exceeded quota: pods"
    assert refused_creation(ReplicaStatus(conditions=(Condition("ReplicaFailure", "False", "x", "y"),))) == ""
    assert is_creation_failure(event("FailedCreate", "create Pod x failed"))
    assert not is_creation_failure(event("SuccessfulCreate", "create Pod x", "Normal"))
    assert "exceeded quota" in creation_failure("slurm-controller", "exceeded quota").describe()


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        (CREATING, "pod gpu-0 waits for container slurmd (ContainerCreating)"),
        (unscheduled(1), "pod gpu-0 waits for a node"),
        (pod(gone=ago(1)), "pod gpu-0 is terminating"),
        (pod(init={"name": "await-accounting", "state": {"running": {}}}), "waits for container await-accounting"),
        (pod(container={"ready": True}), "pod gpu-0 is not ready"),
    ],
)
def test_progressing_tells_what_a_pod_waits_for(failing: Pod, words: str) -> None:
    assert words in describe_wait([ready_pod("a"), failing])


def test_a_failure_explains_an_object_that_is_not_ready_and_degrades_one_that_is() -> None:
    failure = Failure(FailureCause.CRASH_LOOP, ("x",), "fatal", "slurmd")
    before = ObjectHealth(ConditionState(False, "NotReady"))
    assert with_failure(before, None) is before
    assert with_failure(before, failure).ready.reason == "CrashLoop"
    after = with_failure(ObjectHealth(ConditionState(True, "Available")), failure)
    assert (after.ready.reason, after.degraded.reason) == ("Available", "CrashLoop")


def test_a_node_set_reports_the_failure_of_its_workers_and_a_refused_creation() -> None:
    snapshot = node_set_snapshot(node_set(replicas=2), [ready_pod(ready=None)])
    report = ExecutionReport(uncreated={"gpu-1": "exceeded quota", "gpu-2": "exceeded quota"})
    reported = health(snapshot, report, None, creation_refusal(report))
    assert (reported.ready.value, reported.ready.reason, reported.degraded.reason) == (
        False,
        "PodNotCreated",
        "PodNotCreated",
    )
    assert "exceeded quota" in reported.degraded.message
    assert creation_refusal(ExecutionReport()) is None
    assert "pod gpu-0" in health(snapshot).progressing.message


def test_a_halted_update_names_the_cause() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxFailures": 1, "progressDeadlineSeconds": 60}}
    snapshot = node_set_snapshot(node_set(replicas=1, updateStrategy=strategy), [ready_pod(ready=None)])
    failure = Failure(FailureCause.IMAGE_NOT_PULLED, ("gpu-0",), "not found", "slurmd")
    reported = health(snapshot, None, None, failure).degraded
    assert reported.reason == "UpdateHalted"
    assert "cannot be pulled: not found" in reported.message


def test_the_documentation_has_every_cause() -> None:
    page = PAGE.read_text()
    rows = [f"| `{reason}` | {sentence} | {ended_by} | {step} |" for reason, sentence, ended_by, step in causes_table()]
    assert "\n".join(rows) in page, "\n".join(rows)
