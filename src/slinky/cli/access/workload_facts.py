# SPDX-License-Identifier: Apache-2.0
"""Reads pods, gangs and NodeSets from Kubernetes as explanations need them."""

from itertools import chain

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.bridge import names
from slinky.bridge.views.pods import SchedulingGroup
from slinky.cli.cluster.command import not_found
from slinky.insight.explain.node_set import ConditionFacts, NodeSetFacts, WorkerFacts
from slinky.insight.explain.pods import GangFacts, PodFacts
from slinky.kube import PODS, Key, KubeClient, Object, Pod, View
from slinky.kube.conditions import find_condition
from slinky.kube.views import PodStatus

#: Labels with the name of the object that groups pods; the first that a pod has names its gang.
GANG_LABELS = (names.POD_GROUP_LABEL, names.LWS_NAME, names.JOBSET_NAME, names.JOB_NAME)
#: Reasons with which a container waits although nothing is wrong.
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


class GangPodSpec(View, frozen=True):
    """What tells how a pod is scheduled."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_group: SchedulingGroup | None = None


class GangPod(Object, frozen=True):
    """A pod with the names of its group."""

    spec: GangPodSpec = GangPodSpec()
    status: PodStatus = PodStatus()


GANG_PODS = PODS.viewed_as(GangPod)


async def read_pod(kube: KubeClient, name: str, namespace: str) -> GangFacts:
    """A pod, with the other pods of its gang if it has no Slurm job. Raises `CommandError` for an unknown one."""
    pod = await kube.find(GANG_PODS, Key(namespace, name))
    if pod is None:
        raise not_found(f"pod in {namespace}", name, await _pod_names(kube, namespace))
    gang = gang_name(pod)
    if names.JOB_LABEL in pod.metadata.labels or not gang:
        return GangFacts("pod", namespace, name, (pod_facts(pod),))
    return await read_gang(kube, gang, namespace)


async def read_gang(kube: KubeClient, name: str, namespace: str) -> GangFacts:
    """The pods that a PodGroup, JobSet, LeaderWorkerSet or batch job groups. Raises `CommandError` if it has none."""
    pods = await kube.list(GANG_PODS, namespace=namespace)
    members = [pod for pod in pods if name in group_names(pod)]
    if not members:
        raise not_found(f"gang in {namespace}", name, sorted({group for pod in pods for group in group_names(pod)}))
    facts = sorted((pod_facts(pod) for pod in members), key=lambda pod: pod.name)
    return GangFacts("gang", namespace, name, tuple(facts))


async def read_node_set(kube: KubeClient, name: str, namespace: str) -> NodeSetFacts:
    """A NodeSet with its workers. Raises `CommandError` for an unknown one."""
    node_set = await kube.find(NODE_SETS, Key(namespace, name))
    if node_set is None:
        known = [item.metadata.name for item in await kube.list(NODE_SETS, namespace=namespace)]
        raise not_found(f"NodeSet in {namespace}", name, known)
    labels = ",".join(f"{key}={value}" for key, value in node_set.selector.items())
    return node_set_facts(node_set, await kube.list(PODS, namespace=namespace, labels=labels))


async def _pod_names(kube: KubeClient, namespace: str) -> list[str]:
    return [pod.metadata.name for pod in await kube.list(PODS, namespace=namespace)]


def group_names(pod: GangPod) -> tuple[str, ...]:
    """The names of the objects that group a pod, the one that decides first."""
    native = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""
    labelled = (pod.metadata.labels.get(label, "") for label in GANG_LABELS)
    return tuple(name for name in (native, *labelled) if name)


def gang_name(pod: GangPod) -> str:
    """The name of the object that groups a pod; empty if there is none."""
    return next(iter(group_names(pod)), "")


def pod_facts(pod: GangPod) -> PodFacts:
    """A pod of the bridge as explanations read it."""
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    return PodFacts(
        pod.metadata.namespace,
        pod.metadata.name,
        job_id=pod.metadata.labels.get(names.JOB_LABEL, ""),
        node=pod.spec.node_name,
        phase=pod.status.phase,
        reason=condition.reason if condition else "",
        message=condition.message if condition else "",
        scheduler=pod.spec.scheduler_name,
        fault=container_fault(pod.status),
    )


def node_set_facts(node_set: NodeSet, pods: list[Pod]) -> NodeSetFacts:
    """A NodeSet as explanations read it."""
    status = node_set.status
    workers = (pod for pod in pods if not pod.metadata.deleting)
    return NodeSetFacts(
        node_set.metadata.namespace,
        node_set.metadata.name,
        desired=status.desired,
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        conditions=tuple(ConditionFacts(c.type, c.status, c.reason, c.message) for c in status.conditions),
        workers=tuple(_worker_facts(pod) for pod in sorted(workers, key=lambda pod: pod.metadata.name)),
        scaling=status.autoscaling.message if status.autoscaling else "",
        impossible=status.autoscaling.impossible_jobs if status.autoscaling else (),
    )


def _worker_facts(pod: Pod) -> WorkerFacts:
    facts = PodFacts(
        pod.metadata.namespace,
        pod.metadata.name,
        node=pod.spec.node_name,
        phase=pod.status.phase,
        fault=container_fault(pod.status) or scheduling_fault(pod.status),
    )
    host = pod.metadata.labels.get(metadata.POD_HOSTNAME) or pod.spec.hostname or pod.metadata.name
    return WorkerFacts(facts, host)


def container_fault(status: PodStatus) -> str:
    """Why a container does not start, or why the kubelet refused the pod; empty if nothing is wrong."""
    for container in chain(status.init_container_statuses, status.container_statuses):
        waiting, last = container.state.waiting, container.last_state.terminated
        if waiting is None or waiting.reason in _STARTING or not waiting.reason:
            continue
        text = f"container {container.name} waits ({waiting.reason})"
        cause = waiting.message or (f"it ended with exit code {last.exit_code}" if last else "")
        return f"{text}: {cause}" if cause else text
    return f"{status.reason}: {status.message}" if status.phase == "Failed" and status.reason else ""


def scheduling_fault(status: PodStatus) -> str:
    """Why Kubernetes finds no node for a pod; empty if it has one."""
    condition = find_condition(status.conditions, "PodScheduled")
    if condition is None or condition.status == "True" or not condition.reason:
        return ""
    return f"no node suits it ({condition.reason}): {condition.message}"
