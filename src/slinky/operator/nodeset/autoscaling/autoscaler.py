# SPDX-License-Identifier: Apache-2.0
"""Sets replicas of NodeSets with autoscaling; decides nothing itself."""

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus
from slinky.api.fields.conditions import DEGRADED
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.insight.plain_text import counted
from slinky.kube.managed_fields import ManagedObject
from slinky.kube.types import Key
from slinky.observe import Log
from slinky.operator.framework.conditions import ConditionState, previous_state
from slinky.operator.framework.context import Context
from slinky.operator.metrics import AUTOSCALINGS, SLURM_WRITES, WORKERS_NOT_GRANTED, WORKERS_WANTED, WRITES
from slinky.operator.nodeset.autoscaling import pools
from slinky.operator.nodeset.autoscaling.cluster_demand import ClusterDemand, ClusterDemands
from slinky.operator.nodeset.autoscaling.decision import (
    UNMET_SECONDS,
    PoolDemand,
    ScalingDecision,
    ScalingReason,
    WorkerCounts,
    decide,
    next_status,
    unmet_seconds,
    verified_reduction,
    with_retry,
    workers_not_granted,
)
from slinky.operator.nodeset.autoscaling.job_comments import JobComments
from slinky.operator.nodeset.workers import Worker
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import JobRequest, SlurmError

log = Log("slinky.operator.nodeset.autoscaling")

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


class _Observation(NamedTuple):
    """The workers of a NodeSet and what pending jobs need of it, at one moment."""

    workers: list[Worker]
    counts: WorkerCounts
    demand: PoolDemand | None
    now: datetime


class Autoscaler:
    """Follows the demand of every cluster that has a NodeSet with autoscaling."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self.demands = ClusterDemands(context, clusters)
        self._comments: dict[Key, JobComments] = {}  # on pending jobs, by cluster
        self._commented_at: dict[Key, float] = {}  # when the demand was computed from which comments were written

    async def scale(self, node_set: NodeSet, record_event: RecordEvent) -> AutoscalerResult:
        """Decide how many workers a NodeSet should have, and set the number."""
        controller = node_set.controller_key
        self._follow(controller)
        policy = node_set.autoscaling
        if policy is None:
            condition = ConditionState(False, "Off") if node_set.status.autoscaling else None
            return AutoscalerResult(node_set, node_set.status.autoscaling, condition)
        status = with_retry(
            node_set.status.autoscaling or AutoscalingStatus(),
            node_set.metadata.annotations.get(metadata.RETRY_GROWTH, ""),
        )
        demand = self.demands.latest(controller)
        await self._write_comments(controller, demand)
        other = await self._other_writer(node_set, status, record_event) if policy.mode == "Active" else ""
        seen = self._observe(node_set, demand)
        decision = decide(policy, seen.counts, seen.demand, status, seen.now, other_writer=other)
        if policy.mode == "Active" and decision.replicas < node_set.spec.replicas:
            seen, decision = await self._verify(policy, node_set, status)
        hosts = [worker.host for worker in pools.counted_workers(seen.workers) if worker.host is not None]
        impossible = seen.demand.impossible if seen.demand else status.impossible_jobs
        after = next_status(
            policy,
            status,
            seen.counts,
            decision,
            seen.now,
            impossible=impossible,
            partitions=seen.demand.partitions if seen.demand else (),
            learned=pools.learn_worker(hosts),
        )
        lacking = 0 if seen.demand is None else workers_not_granted(seen.counts, seen.demand, decision)
        self._publish(node_set.key, None if seen.demand is None else decision.replicas, lacking)
        if policy.mode == "Active" and decision.replicas != node_set.spec.replicas:
            node_set = await self._write(node_set, decision, record_event)
        unmet = unmet_seconds(after, seen.now)
        rechecks = [
            decision.recheck_seconds,
            self.demands.recheck_seconds(controller),
            UNMET_SECONDS - unmet if unmet is not None and unmet < UNMET_SECONDS else None,
        ]
        recheck = min((seconds for seconds in rechecks if seconds is not None), default=None)
        return AutoscalerResult(node_set, after, _condition(policy, decision, unmet), recheck)

    async def _verify(
        self, policy: Autoscaling, node_set: NodeSet, status: AutoscalingStatus
    ) -> tuple[_Observation, ScalingDecision]:
        """Decide on fewer workers again with hosts that are read after the jobs.

        A job that has left the queue by now is on a host by then; one that starts meanwhile is still in the old queue.
        """
        controller, queue = node_set.controller_key, self.clusters.queue(node_set.controller_key)
        responded = await self.clusters.refresh(controller)
        earlier = self._observe(node_set, self.demands.with_queue(controller, queue if responded else None))
        later = self._observe(node_set, self.demands.compute(controller)) if responded else earlier
        decisions = [decide(policy, seen.counts, seen.demand, status, seen.now) for seen in (earlier, later)]
        return later, verified_reduction(node_set.spec.replicas, *decisions)

    def _observe(self, node_set: NodeSet, demand: ClusterDemand) -> _Observation:
        now, slurm = self.context.clock.now(), self.clusters.snapshot(node_set.controller_key)
        workers = self.demands.workers(node_set, slurm)
        degraded = previous_state(node_set.status.conditions, DEGRADED)
        counts = pools.worker_counts(
            node_set,
            workers,
            now,
            degraded.message if degraded.value else "",
            reserved_from=slurm.reserved_from,
            nodes=self.demands.node_limit(node_set, workers),
        )
        return _Observation(workers, counts, demand.of(node_set), now)

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
        policies = [policy for item in self.demands.node_sets(controller) if (policy := item.autoscaling)]
        holders = any(policy.account_limits for policy in policies)
        self.clusters.follow_pending_jobs(controller, bool(policies), holders=holders)

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

    async def _write_comments(self, controller: Key, demand: ClusterDemand) -> None:
        """Say on jobs why the workers that they wait for do not come. A job may end meanwhile; the others count."""
        client = self.clusters.client(controller)
        if client is None or self._commented_at.get(controller) == demand.computed_at:
            return
        self._commented_at[controller] = demand.computed_at
        comments, now = self._comments.setdefault(controller, JobComments()), self.context.clock.monotonic()
        if demand.by_node_set is not None:
            comments.keep_only({job.job_id for job in demand.jobs})
        for job, text in comments.changes(demand.jobs, demand.paused, now).items():
            SLURM_WRITES.labels("comment").inc()
            try:
                await client.update_job(job, JobRequest(admin_comment=text))
                comments.confirm(job, text)
            except SlurmError as error:
                comments.refuse(job, now)
                log.info("a job does not take the comment about missing workers yet", job=job, error=error)

    # --- other writers

    async def _other_writer(self, node_set: NodeSet, status: AutoscalingStatus, record_event: RecordEvent) -> str:
        """Another autoscaler that has changed replicas since this one has set it; empty if there is none."""
        if status.replicas is None or status.replicas == node_set.spec.replicas:
            return ""
        live = await self.context.client.get(NODE_SETS.viewed_as(ManagedObject), node_set.key)
        managers = live.managers("spec", "replicas")
        for manager in managers:
            for prefix, name in AUTOSCALERS.items():
                if manager.subresource == "scale" and manager.name.startswith(prefix):
                    return name
        others = sorted({manager.name for manager in managers} - {self.context.client.manager}) or ["another writer"]
        text = f"replicas was changed from {status.replicas} to {node_set.spec.replicas} by {others[0]}"
        record_event("ReplicasChanged", f"{text}; the autoscaler continues with this number")
        return ""


def _condition(policy: Autoscaling, decision: ScalingDecision, unmet: float | None) -> ConditionState:
    if policy.mode == "DryRun":
        return ConditionState(False, "DryRun", f"would set {decision.replicas} replicas: {decision.message}")
    if unmet is not None and unmet >= UNMET_SECONDS:
        text = f"no autoscaler sets the {counted(decision.replicas, 'worker')} that jobs need"
        advice = "see the conditions of the HorizontalPodAutoscaler, and which Service serves external.metrics.k8s.io"
        return ConditionState(False, ScalingReason.NOT_FOLLOWED.value, f"{text}; {advice}")
    return ConditionState(CONDITION_VALUES.get(decision.reason, True), decision.reason.value, decision.message)
