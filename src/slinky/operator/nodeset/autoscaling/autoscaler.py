# SPDX-License-Identifier: Apache-2.0
"""Sets replicas of NodeSets with autoscaling; decides nothing itself.

The demand of a cluster is computed for all of its NodeSets together, at most once in `DEMAND_AGE` seconds, from what
the mirror has read anyway. The result is an absolute number per NodeSet, so two reconciles do not add workers twice.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus
from slinky.api.fields.conditions import DEGRADED
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.insight.demand import compute_demand
from slinky.kube.types import Key, ObjectMeta, View
from slinky.observe import Log
from slinky.operator.framework import references
from slinky.operator.framework.conditions import ConditionState, previous_state
from slinky.operator.framework.context import Context
from slinky.operator.metrics import AUTOSCALINGS, SLURM_WRITES, WORKERS_NOT_GRANTED, WORKERS_WANTED, WRITES
from slinky.operator.nodeset.autoscaling import pools
from slinky.operator.nodeset.autoscaling.decision import (
    PoolDemand,
    ScalingDecision,
    ScalingReason,
    decide,
    next_status,
    with_retry,
    workers_not_granted,
)
from slinky.operator.nodeset.autoscaling.job_comments import comment_changes
from slinky.operator.nodeset.autoscaling.policy import duration
from slinky.operator.nodeset.workers import Worker, build_worker
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import JobRequest, SlurmError

log = Log("slinky.operator.nodeset.autoscaling")

#: Seconds for which the demand of a cluster is not computed again.
DEMAND_AGE = 1.0
#: Field managers of autoscalers that write replicas by the scale subresource.
AUTOSCALERS = {
    "kube-controller-manager": "a HorizontalPodAutoscaler",
    "horizontal-pod-autoscaler": "a HorizontalPodAutoscaler",
    "keda": "KEDA",
}
#: Whether a condition is True, False or Unknown, by the reason of the decision; True for all others.
CONDITION_VALUES: dict[ScalingReason, bool | None] = {
    ScalingReason.SLURM_UNKNOWN: None,
    ScalingReason.TWO_WRITERS: False,
    ScalingReason.CAPACITY_MISSING: False,
    ScalingReason.RETRY_LATER: False,
    ScalingReason.BUDGET_USED_UP: False,
}

RecordEvent = Callable[..., None]


class AutoscalerResult(NamedTuple):
    """The NodeSet with the new number of replicas, and what to report."""

    node_set: NodeSet
    status: AutoscalingStatus | None = None
    condition: ConditionState | None = None
    recheck_seconds: float | None = None


class ManagedFields(View, frozen=True):
    """One entry of `metadata.managedFields`."""

    manager: str = ""
    subresource: str = ""
    fields_v1: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default


class _ClusterDemand(NamedTuple):
    """The demand of each NodeSet with the replicas that it had, and when it was computed; None if Slurm is unknown.

    `comments` are to be written on jobs.
    """

    computed_at: float
    by_node_set: dict[Key, tuple[int, PoolDemand]] | None
    comments: dict[int, str] = {}  # noqa: RUF012 - never changed


class Autoscaler:
    """Follows the demand of every cluster that has a NodeSet with autoscaling."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self._demands: dict[Key, _ClusterDemand] = {}
        self._comments: dict[Key, dict[int, str]] = {}  # on pending jobs, by cluster

    async def scale(
        self, node_set: NodeSet, workers: tuple[Worker, ...], record_event: RecordEvent
    ) -> AutoscalerResult:
        """Decide how many workers a NodeSet should have, and set the number."""
        self._follow(node_set.controller_key)
        policy = node_set.autoscaling
        if policy is None:
            condition = ConditionState(False, "Off") if node_set.status.autoscaling else None
            return AutoscalerResult(node_set, node_set.status.autoscaling, condition)
        now = self.context.clock.now()
        status = with_retry(
            node_set.status.autoscaling or AutoscalingStatus(),
            node_set.metadata.annotations.get(metadata.RETRY_GROWTH, ""),
        )
        degraded = previous_state(node_set.status.conditions, DEGRADED)
        counts = pools.worker_counts(node_set, workers, now, degraded.message if degraded.value else "")
        demand = self._demand(node_set)
        await self._write_comments(node_set.controller_key)
        other = await self._other_writer(node_set, status, record_event) if policy.mode == "Active" else ""
        decision = decide(policy, counts, demand, status, now, other_writer=other)
        hosts = [worker.host for worker in pools.counted_workers(workers) if worker.host is not None]
        impossible = demand.impossible if demand else status.impossible_jobs
        after = next_status(
            policy, status, counts, decision, now, impossible=impossible, learned=pools.learn_worker(hosts)
        )
        lacking = 0 if demand is None else workers_not_granted(counts, demand, decision)
        self._publish(node_set.key, None if demand is None else decision.replicas, lacking)
        if policy.mode == "Active" and decision.replicas != node_set.spec.replicas:
            node_set = await self._write(node_set, decision, record_event)
        return AutoscalerResult(node_set, after, _condition(policy, decision), decision.recheck_seconds)

    def forget(self, key: Key) -> None:
        """Discard what is remembered of a NodeSet that no longer exists."""
        self._publish(key, None)

    def _publish(self, key: Key, wanted: int | None, not_granted: int = 0) -> None:
        """Publish the numbers; what is not known has no series, so that no autoscaler follows an old number."""
        if wanted is not None:
            WORKERS_WANTED.labels(*key).set(wanted)
            WORKERS_NOT_GRANTED.labels(*key).set(not_granted)
            return
        for gauge in (WORKERS_WANTED, WORKERS_NOT_GRANTED):
            with contextlib.suppress(KeyError):
                gauge.remove(*key)

    def _follow(self, controller: Key) -> None:
        """Have the mirror read pending jobs while a NodeSet of the cluster needs them."""
        self.clusters.follow_pending_jobs(controller, any(item.autoscaling for item in self._node_sets(controller)))

    def _node_sets(self, controller: Key) -> Iterable[NodeSet]:
        return self.context.node_sets.by(references.CONTROLLER, str(controller))

    async def _write(self, node_set: NodeSet, decision: ScalingDecision, record_event: RecordEvent) -> NodeSet:
        before = node_set.spec.replicas
        WRITES.labels("patch", "NodeSet").inc()
        # With the resource version, a change of the spec that this decision has not seen is not overwritten.
        patch = {
            "metadata": {"resourceVersion": node_set.metadata.resource_version},
            "spec": {"replicas": decision.replicas},
        }
        written = await self.context.client.patch(NODE_SETS, node_set.key, patch)
        self.context.node_sets.record_write(written)
        AUTOSCALINGS.labels(*node_set.key, decision.reason.value).inc()
        failed = decision.reason is ScalingReason.CAPACITY_MISSING
        reason = "GrowthFailed" if failed else "AutoscaledUp" if decision.replicas > before else "AutoscaledDown"
        record_event(reason, f"replicas {before} -> {decision.replicas}: {decision.message}", warning=failed)
        return written

    # --- demand

    def _demand(self, node_set: NodeSet) -> PoolDemand | None:
        """What pending jobs need of this NodeSet; None while Slurm is unknown."""
        controller, now = node_set.controller_key, self.context.clock.monotonic()
        known = self._demands.get(controller)
        if known is None or now - known.computed_at > DEMAND_AGE:
            known = self._demands[controller] = self._compute(controller)
        if known.by_node_set is None:
            return None
        base, demand = known.by_node_set.get(node_set.key, (node_set.spec.replicas, PoolDemand()))
        # The NodeSet may have grown since the demand was computed.
        return replace(demand, new_workers=max(0, base + demand.new_workers - node_set.spec.replicas))

    def _compute(self, controller: Key) -> _ClusterDemand:
        slurm, queue = self.clusters.snapshot(controller), self.clusters.queue(controller)
        computed_at = self.context.clock.monotonic()
        if not slurm.trusted or queue is None:
            return _ClusterDemand(computed_at, None)
        now, node_sets = self.context.clock.now(), list(self._node_sets(controller))
        nodes = {node.metadata.name: node for node in self.context.nodes}
        built, used = [], set()
        for node_set in node_sets:
            pods = self.context.pods.by("owner", node_set.metadata.uid)
            workers = [build_worker(node_set, pod, nodes.get(pod.spec.node_name), slurm, now) for pod in pods]
            used |= {worker.hostname for worker in workers}
            built.append(pools.build_pool(node_set, workers, queue.partitions, now))
        built += pools.other_pools(host for name, host in slurm.hosts.items() if name not in used)
        lead = max((duration(policy.begin_ahead) for item in node_sets if (policy := item.autoscaling)), default=0.0)
        pending = queue.demands(lead)
        demand = compute_demand(pending, built, now.timestamp())
        impossible = pools.impossible_jobs(pending, demand, built)
        waiting = [job for job, _ in queue.jobs]
        written = self._comments.get(controller, {})
        self._comments[controller] = {job.job_id: written[job.job_id] for job in waiting if job.job_id in written}
        comments = comment_changes(waiting, demand.paused, self._comments[controller])
        by_node_set = {
            node_set.key: (
                node_set.spec.replicas,
                PoolDemand(
                    demand.new_workers.get(node_set.metadata.name, 0),
                    demand.claimed_idle.get(node_set.metadata.name, 0),
                    demand.jobs.get(node_set.metadata.name, 0),
                    impossible.get(node_set.metadata.name, ()),
                ),
            )
            for node_set in node_sets
        }
        return _ClusterDemand(computed_at, by_node_set, comments)

    async def _write_comments(self, controller: Key) -> None:
        """Say on jobs why the workers that they wait for do not come. A job may end meanwhile; the others count."""
        client, known = self.clusters.client(controller), self._demands[controller]
        if client is None or not known.comments:
            return
        self._demands[controller] = known._replace(comments={})
        for job, text in known.comments.items():
            SLURM_WRITES.labels("comment").inc()
            try:
                await client.update_job(job, JobRequest(admin_comment=text))
            except SlurmError as error:
                log.info("a job does not take the comment about missing workers", job=job, error=error)
            self._comments.setdefault(controller, {})[job] = text

    # --- other writers

    async def _other_writer(self, node_set: NodeSet, status: AutoscalingStatus, record_event: RecordEvent) -> str:
        """Another autoscaler that has changed replicas since this one has set it; empty if there is none."""
        if status.replicas is None or status.replicas == node_set.spec.replicas:
            return ""
        managers = await self._replicas_managers(node_set.key)
        for entry in managers:
            for prefix, name in AUTOSCALERS.items():
                if entry.subresource == "scale" and entry.manager.startswith(prefix):
                    return name
        others = sorted({entry.manager for entry in managers} - {self.context.client.manager}) or ["another writer"]
        text = f"replicas was changed from {status.replicas} to {node_set.spec.replicas} by {others[0]}"
        record_event("ReplicasChanged", f"{text}; the autoscaler continues with this number")
        return ""

    async def _replicas_managers(self, key: Key) -> list[ManagedFields]:
        live = await self.context.client.get(NODE_SETS.viewed_as(ManagedObject), key)
        return [
            entry for entry in live.metadata.managed_fields if "f:replicas" in (entry.fields_v1.get("f:spec") or {})
        ]


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with the managers of fields."""

    managed_fields: tuple[ManagedFields, ...] = ()


class ManagedObject(View, frozen=True):
    """An object of any kind with the managers of its fields."""

    metadata: ManagedMeta


def _condition(policy: Autoscaling, decision: ScalingDecision) -> ConditionState:
    if policy.mode == "DryRun":
        return ConditionState(False, "DryRun", f"would set {decision.replicas} replicas: {decision.message}")
    return ConditionState(CONDITION_VALUES.get(decision.reason, True), decision.reason.value, decision.message)
