# SPDX-License-Identifier: Apache-2.0
"""The demand of each cluster's pending jobs, for all of its NodeSets together, from what the mirror has read anyway.

The mirror reads jobs and hosts one after the other. A job that starts in between would count twice if hosts were read
last (it is pending, and its workers are busy: the NodeSet would grow again), and not at all if jobs were read last (it
is not pending, and its workers are idle: the NodeSet would shrink). Therefore the demand is computed only from jobs
that were read after the last change of a host, and a decision to shrink is verified with hosts that are read again.

Many changes at once cause one computation. A NodeSet that is reconciled with a demand from before a change asks to be
reconciled again, because no other event may follow: without that, a job could wait until the next unrelated change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NodeSet
from slinky.insight.demand import compute_demand
from slinky.kube.types import Key
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.nodeset.autoscaling import pools
from slinky.operator.nodeset.autoscaling.decision import PoolDemand
from slinky.operator.nodeset.autoscaling.policy import duration
from slinky.operator.nodeset.workers import Worker, build_worker
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.slurm.pending_jobs import PendingQueue
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Job

#: Seconds for which the demand of a cluster is not computed again.
DEMAND_AGE = 1.0
#: Seconds until the next decision while the demand waits for jobs to be read.
HELD_SECONDS = 1.0
#: Seconds after which the demand is computed even if jobs are older than hosts: slow reads must not stop growth.
MAX_DEMAND_AGE = 10.0


class ClusterDemand(NamedTuple):
    """The demand of each NodeSet with the replicas that it had, and when it was computed; None if Slurm is unknown.

    `jobs` are the pending jobs; `paused` says of some why the workers that they wait for may not be created now.
    """

    computed_at: float
    by_node_set: Mapping[Key, tuple[int, PoolDemand]] | None
    jobs: tuple[Job, ...] = ()
    paused: Mapping[int, str] = {}

    def of(self, node_set: NodeSet) -> PoolDemand | None:
        """The demand of a NodeSet; None while Slurm is unknown."""
        if self.by_node_set is None:
            return None
        base, demand = self.by_node_set.get(node_set.key, (node_set.spec.replicas, PoolDemand()))
        return remaining_demand(demand, base, node_set.spec.replicas)


def remaining_demand(demand: PoolDemand, before: int, replicas: int) -> PoolDemand:
    """What is left of a demand that was computed for `before` replicas.

    Workers that were added since then are not requested again, and those that were removed are not requested back.
    """
    added = max(0, replicas - before)
    return replace(demand, new_workers=max(0, demand.new_workers - added))


def is_due(age: float, *, jobs_follow_hosts: bool) -> bool:
    """Whether a demand of this age is computed again; not from jobs that are older than hosts, unless it is too old."""
    return age > (DEMAND_AGE if jobs_follow_hosts else MAX_DEMAND_AGE)


def recheck_after(age: float, *, outdated: bool, jobs_follow_hosts: bool) -> float | None:
    """Seconds until a decision on a demand of this age is repeated with a new one; None if the demand is up to date."""
    if not jobs_follow_hosts:
        return HELD_SECONDS
    return max(0.0, DEMAND_AGE - age) if outdated else None


class ClusterDemands:
    """Computes the demand of every cluster that has a NodeSet with autoscaling, at most once in `DEMAND_AGE`."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self._latest: dict[Key, ClusterDemand] = {}

    def latest(self, controller: Key) -> ClusterDemand:
        """The demand of a cluster; computed now if it is due."""
        known, slurm = self._latest.get(controller), self.clusters.snapshot(controller)
        if known is None or known.by_node_set is None or not slurm.trusted or self._is_due(controller, known):
            known = self.compute(controller)
        return known

    def recheck_seconds(self, controller: Key) -> float | None:
        """Seconds until the demand is computed again, because it is older than the last change; None if it is not."""
        known = self._latest.get(controller)
        if known is None or known.by_node_set is None:
            return None
        return recheck_after(
            self.context.clock.monotonic() - known.computed_at,
            outdated=self.clusters.changed_at(controller) > known.computed_at,
            jobs_follow_hosts=self.clusters.jobs_follow_hosts(controller),
        )

    def compute(self, controller: Key) -> ClusterDemand:
        """Compute the demand now, and keep it."""
        self._latest[controller] = demand = self.with_queue(controller, self.clusters.queue(controller))
        return demand

    def with_queue(self, controller: Key, queue: PendingQueue | None) -> ClusterDemand:
        """The demand of these pending jobs on the present hosts."""
        slurm, computed_at = self.clusters.snapshot(controller), self.context.clock.monotonic()
        if not slurm.trusted or queue is None:
            return ClusterDemand(computed_at, None)
        node_sets, now = self.node_sets(controller), self.context.clock.now()
        built, used = [], set[str]()
        by_block = any(job.segment_size > 1 for job, _ in queue.jobs)
        for node_set in node_sets:
            workers = self.workers(node_set, slurm)
            used |= {worker.hostname for worker in workers}
            nodes = self.node_limit(node_set, workers)
            pool = pools.build_pool(
                node_set, workers, queue.partitions, now, held=queue.held, nodes=nodes, by_block=by_block
            )
            built.append(pool)
        others = (host for name, host in slurm.hosts.items() if name not in used)
        built += pools.other_pools(others, by_block=by_block)
        lead = max((duration(policy.begin_ahead) for item in node_sets if (policy := item.autoscaling)), default=0.0)
        pending = queue.demands(lead)
        demand = compute_demand(pending, built, now.timestamp())
        of_pools = pools.pool_demands(pending, demand, built, queue.by_partition())
        by_node_set = {item.key: (item.spec.replicas, of_pools[item.metadata.name]) for item in node_sets}
        return ClusterDemand(computed_at, by_node_set, tuple(job for job, _ in queue.jobs), demand.paused)

    def node_sets(self, controller: Key) -> list[NodeSet]:
        """The NodeSets of a cluster."""
        return list(self.context.node_sets.by(references.CONTROLLER, str(controller)))

    def workers(self, node_set: NodeSet, slurm: SlurmSnapshot) -> list[Worker]:
        """The workers of a NodeSet."""
        now, nodes = self.context.clock.now(), self.context.nodes
        pods = self.context.pods.by("owner", node_set.metadata.uid)
        return [build_worker(node_set, pod, nodes.get(Key("", pod.spec.node_name)), slurm, now) for pod in pods]

    def node_limit(self, node_set: NodeSet, workers: Sequence[Worker]) -> int | None:
        """How many workers the present Kubernetes nodes have room for; None if that is no limit for the NodeSet."""
        policy = node_set.autoscaling
        if policy is None or not policy.existing_nodes_only or node_set.spec.oversubscribe_node:
            return None
        own = {worker.pod.spec.node_name for worker in workers}
        taken = {
            pod.spec.node_name for pod in self.context.pods if pod.metadata.labels.get(metadata.APP_NAME) == SLURMD.app
        }
        return len(pools.nodes_for_workers(node_set, self.context.nodes, own, taken - own))

    def _is_due(self, controller: Key, known: ClusterDemand) -> bool:
        age = self.context.clock.monotonic() - known.computed_at
        return is_due(age, jobs_follow_hosts=self.clusters.jobs_follow_hosts(controller))
