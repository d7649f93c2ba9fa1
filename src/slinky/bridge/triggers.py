# SPDX-License-Identifier: Apache-2.0
"""Which workloads are reconciled when a Kubernetes object changes.

Each rule is a predicate on the old and the new version of an object, and a query for the workloads that the change can
help. Both are narrow on purpose: the controllers of Kubernetes write the status of a batch job about once a second, and
claims come and go with every pod that uses devices. A rule that matched all waiting workloads would reconcile ten
thousand of them each time.
"""

from typing import Any

from msgspec.structs import replace

from slinky.bridge.feasibility.exclusions import node_traits
from slinky.bridge.feasibility.volume_state import volume_claims_of
from slinky.bridge.state.cluster import UNSUBMITTED, WAITING, ClusterState
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views import ForeignPod, ResourceClaim, WorkloadBatchJob, WorkloadPod, WorkloadVolumeClaim
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.kube import Node, Object
from slinky.slurm import Host, JobRecord, number

#: Forecasts of starts count as equal within intervals of this length, by the seconds after the submission from which
#: it applies. Behind a job without a time limit, the forecasts of all others lie in a year and move steadily.
FORECAST_SECONDS = ((0, 120), (6 * 3600, 1800), (7 * 86400, 86400))


class WorkloadTriggers:
    """The workloads that an object affects."""

    def __init__(self, cluster: ClusterState, registry: JobRegistry) -> None:
        self._cluster, self._registry = cluster, registry
        cluster.pods.add_indexes({"volume": _waiting_for_volumes})

    def of_pod(self, pod: WorkloadPod) -> set[Workload]:
        """The workload of a pod, and the single pod if it had a job before it joined a group."""
        single = Workload(pod.metadata.namespace, "Pod", pod.metadata.name)
        return {self._cluster.workload_of(pod), *((single,) if self._registry.entries_of(single) else ())}

    def of_group(self, kind: str, group: Object) -> set[Workload]:
        """The workloads of all pods that a grouping object can affect: not of pods that ended and are released."""
        return self._cluster.workloads_of(pod for pod in self._pods_of(kind, group) if not pod_state.is_released(pod))

    def gang_of_batch_job(self, batch_job: WorkloadBatchJob) -> set[Workload]:
        """The gang that contains all pods of a batch job; none if each of its pods has a job of its own."""
        pods = self._pods_of("Job", batch_job)
        workload = self._cluster.workload_of(pods[0]) if pods else None
        return {workload} if workload and not workload.is_single_pod else set()

    def _pods_of(self, kind: str, group: Object) -> list[WorkloadPod]:
        return self._cluster.pods_below(Workload(group.metadata.namespace, kind, group.metadata.name))

    def stopping_on(self, node: Node) -> set[Workload]:
        """Workloads with deleted pods on a node: their end depends on whether the kubelet answers."""
        pods = self._cluster.pods.by("node", node.metadata.name)
        return self._cluster.workloads_of(pod for pod in pods if pod.metadata.deleting)

    def of_claim(self, claim: ResourceClaim) -> set[Workload]:
        """The workloads whose pods use a resource claim."""
        return self._cluster.workloads_of(self._cluster.pods.by("claim", str(claim.key)))

    def waiting_for_devices(self, _: ResourceClaim) -> set[Workload]:
        """Workloads whose job has its nodes, but other claims still use the devices there.

        A job that is pending in Slurm does not depend on claims.
        """
        return self._cluster.workloads_of(self._cluster.pods.by("reason", Reason.DEVICES_HELD.token))

    def unsubmitted_with_devices(self) -> set[Workload]:
        """Workloads without a job that request devices: classes and devices decide whether they can be translated."""
        return self._cluster.workloads_of(self._cluster.pods.by("devices", UNSUBMITTED))

    def of_volume_claim(self, claim: WorkloadVolumeClaim) -> set[Workload]:
        """The waiting workloads whose pods mount a volume claim."""
        return self._cluster.workloads_of(self._cluster.pods.by("volume", str(claim.key)))

    def waiting_for_ports(self, _: WorkloadPod | ForeignPod) -> set[Workload]:
        """Waiting workloads that request host ports."""
        return self._cluster.workloads_of(self._cluster.pods.by("ports", WAITING))

    def of_job(self, job: str) -> set[Workload]:
        """The workload that a job was submitted for, and those of pods with its label."""
        workload = self._registry.resolve_workload(job)
        labelled = self._cluster.workloads_of(self._cluster.pods.by("job", job))
        return labelled | ({workload} if workload else set())


def is_job_changed(old: JobRecord | None, new: JobRecord | None) -> bool:
    """A job changed in a way that its pods show. Slurm moves priorities and forecasts of pending jobs steadily."""
    return old is None or new is None or _job_traits(old) != _job_traits(new)


def _job_traits(record: JobRecord) -> JobRecord:
    job = record.detail
    if job is None or not record.state.pending:
        return record
    wait = job.start_time.whole - job.submit_time.whole
    interval = max((length for least, length in FORECAST_SECONDS if wait >= least), default=1)
    start = number(job.start_time.whole // interval)
    return replace(record, detail=replace(job, priority=number(0), start_time=start, end_time=number(0)))


def is_group_changed(old: Object | None, new: Object | None) -> bool:
    """A grouping object was created or deleted, or something changed that every pod of it depends on."""
    return old is None or new is None or _group_traits(old) != _group_traits(new)


def _group_traits(group: Any) -> tuple[object, ...]:
    meta = group.metadata
    # Pods that are jobs of their own take only the deadline from their batch job; `is_size_changed` covers gangs.
    spec = group.spec.active_deadline_seconds if isinstance(group, WorkloadBatchJob) else getattr(group, "spec", None)
    return meta.uid, meta.annotations, meta.controller, spec


def is_size_changed(old: WorkloadBatchJob | None, new: WorkloadBatchJob | None) -> bool:
    """The number of pods that a batch job needs changed: a gang is submitted when all of them exist."""
    return old is not None and new is not None and _size_traits(old) != _size_traits(new)


def _size_traits(batch_job: WorkloadBatchJob) -> tuple[object, ...]:
    return batch_job.spec.parallelism, batch_job.spec.completions, batch_job.status.succeeded


def is_claim_released(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """The devices of a claim were released."""
    return old is not None and old.status.allocation is not None and (new is None or new.status.allocation is None)


def is_claim_created_or_released(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """A claim was created, or its devices were released."""
    return old is None or is_claim_released(old, new)


def is_releasing_ports(old: WorkloadPod | None, new: WorkloadPod | None) -> bool:
    """A bound pod with host ports ended or was removed."""
    if old is None or not pod_state.is_bound(old) or pod_state.is_finished(old) or not host_ports_of(old):
        return False
    return new is None or pod_state.is_finished(new)


def is_foreign_releasing_ports(old: ForeignPod | None, new: ForeignPod | None) -> bool:
    """A pod of another scheduler with host ports ended or was removed."""
    return new is None and old is not None and bool(old.host_ports)


def is_volume_changed(old: WorkloadVolumeClaim | None, new: WorkloadVolumeClaim | None) -> bool:
    """A volume claim was created or removed, or got its volume."""
    return old is None or new is None or old.spec.volume_name != new.spec.volume_name


def _waiting_for_volumes(pod: WorkloadPod) -> list[str]:
    return [str(key) for key in volume_claims_of(pod)] if pod_state.is_waiting(pod) else []


def is_worker_changed(old: ForeignPod | None, new: ForeignPod | None) -> bool:
    """A Slurm worker came to a node or left it."""
    before, after = (pod.worker_host if pod is not None else "" for pod in (old, new))
    return before != after


def is_stopping_changed(old: WorkloadPod | None, new: WorkloadPod | None) -> bool:
    """A bound pod began or ceased to stop."""
    return _is_stopping(old) != _is_stopping(new)


def _is_stopping(pod: WorkloadPod | None) -> bool:
    return pod is not None and pod.metadata.deleting and pod_state.is_bound(pod) and not pod_state.is_gone(pod)


def is_node_changed(old: Node | None, new: Node | None) -> bool:
    """A node was added or removed, or something changed that decides which pods it suits."""
    return old is None or new is None or node_traits(old) != node_traits(new)


def is_host_changed(old: Host | None, new: Host | None) -> bool:
    """A host was added or removed, or its GRES, partitions or the description by the bridge changed."""
    return old is None or new is None or _host_traits(old) != _host_traits(new)


def _host_traits(host: Host) -> tuple[object, ...]:
    return host.gres, host.partitions, host.comment


def is_readiness_changed(old: Node | None, new: Node | None) -> bool:
    """A node was added or removed, or became ready or unready."""
    return old is None or new is None or old.ready != new.ready
