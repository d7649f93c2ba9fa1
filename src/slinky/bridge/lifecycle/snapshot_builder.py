# SPDX-License-Identifier: Apache-2.0
"""Builds the snapshot of a workload from the caches, the registry of jobs and the mirror of Slurm.

First everything is read that may need a request (owners, claims, volumes). Then the snapshot is assembled without a
pause, so that no other reconcile comes between the facts and the decision.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.job_specs import JobSpecs
from slinky.bridge.feasibility.volume_state import VolumePending
from slinky.bridge.lifecycle import job_groups
from slinky.bridge.lifecycle.attempts import Attempts
from slinky.bridge.lifecycle.node_observer import NodeObserver
from slinky.bridge.lifecycle.snapshot import (
    SUBMISSION,
    Obstacle,
    PlacementFacts,
    Refusal,
    SubmissionFacts,
    WorkloadSnapshot,
)
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.device_demand import ClaimPending
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.state.queue_position import QueuePositions
from slinky.bridge.state.start_ranges import StartRanges
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import grouping, identity, pod_state
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import GroupMissing, Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key

#: With more pods than this, other tasks run between two steps of building a snapshot.
LARGE_GANG = 200
#: Reasons why a workload cannot be translated to a job, by error; the first that matches counts.
PROBLEMS = {
    ClaimPending: Reason.CLAIM_PENDING,
    VolumePending: Reason.VOLUME_MISSING,
    OptionError: Reason.INVALID_OPTION,
}


class SnapshotBuilder:
    """Builds the snapshots of workloads."""

    def __init__(
        self,
        cluster: ClusterState,
        registry: JobRegistry,
        job_specs: JobSpecs,
        nodes: NodeObserver,
        queue_positions: QueuePositions,
        start_ranges: StartRanges,
        attempts: Attempts,
    ) -> None:
        self._cluster, self._registry, self._job_specs, self._nodes = cluster, registry, job_specs, nodes
        self._queue_positions, self._start_ranges, self._attempts = queue_positions, start_ranges, attempts

    async def build(
        self, workload: Workload, *, binding_in_progress: bool = False
    ) -> WorkloadSnapshot | frozenset[Workload]:
        """The snapshot of a workload, or the workloads that its pods turn out to belong to."""
        pods = self._cluster.pods_of(workload)
        await _yield_if_large(pods)
        for job, sluid in job_groups.labelled_jobs(pods).items():
            self._registry.track_labelled(job, workload, sluid)
        root, job_spec, problem = await self._translate(workload, pods)
        await _yield_if_large(pods)
        if (workloads := self._cluster.workloads_of(pods)) - {workload}:
            # Meanwhile the record of a job showed that the pods belong to another workload.
            return frozenset(workloads)
        snapshot = WorkloadSnapshot(
            workload,
            pods,
            {},
            root,
            self._cluster.client.clock.now(),
            problem,
            job_spec,
            self._cluster.settings.dead_kubelet_seconds,
            binding_in_progress=binding_in_progress,
        )
        return await self._observe(snapshot)

    async def refresh(self, snapshot: WorkloadSnapshot, obstacles: Mapping[str, Obstacle]) -> WorkloadSnapshot:
        """A new snapshot after the actions of a plan. What the pods request is not read again."""
        pods = self._cluster.pods_of(snapshot.workload)
        now = self._cluster.client.clock.now()
        return await self._observe(replace(snapshot, pods=pods, now=now, obstacles=obstacles))

    # --- what the pods request

    async def _translate(
        self, workload: Workload, pods: list[WorkloadPod]
    ) -> tuple[WorkloadRoot | None, JobSpec | None, ConditionText | None]:
        """Root and job spec of the workload, or the problem that prevents them."""
        waiting = [pod for pod in pods if pod_state.is_waiting(pod)]
        if not pods:
            return None, None, None
        try:
            root = await self._cluster.root_of(workload, pods)
        except GroupMissing as error:
            return None, None, Reason.GROUP_MISSING.text(problem=error)
        unsupported = (problem for pod in waiting for problem in constraints.unsupported_constraints(pod))
        if problem := root.unsupported or next(unsupported, ""):
            return root, None, Reason.NOT_SUPPORTED.text(problem=problem)
        avoided = [avoided.host for avoided in self._attempts.avoided_hosts(workload)]
        try:
            job_spec = await self._job_specs.build(workload, root, waiting, avoided) if waiting else None
        except (OptionError, VolumePending) as error:
            reason = next(reason for kind, reason in PROBLEMS.items() if isinstance(error, kind))
            return root, None, reason.text(problem=error)
        return root, job_spec, None

    # --- what is known about jobs and nodes

    async def _observe(self, snapshot: WorkloadSnapshot) -> WorkloadSnapshot:
        workload, pods = snapshot.workload, snapshot.pods
        adopted, groups = self._group_pods(workload, pods)
        observed = self._observe_jobs(snapshot, groups)
        shortage = self._find_shortage(snapshot, groups, observed)
        lost_specs = {
            job: spec
            for job, running in job_groups.running_pods_of_lost_jobs(groups, observed).items()
            if (spec := await self._job_specs.try_build(workload, running)) is not None
        }
        await _yield_if_large(pods)
        assigned = {
            job: facts
            for job, record in job_groups.jobs_to_place(groups, observed).items()
            if (facts := self._nodes.assign(record, job_groups.active_pods(groups[job]), snapshot.job_spec)) is not None
        }
        await _yield_if_large(pods)
        snapshot = replace(snapshot, jobs=observed, adopted=adopted, submission=shortage, lost_job_specs=lost_specs)
        return self._assemble(snapshot, groups, assigned)

    def _assemble(
        self,
        snapshot: WorkloadSnapshot,
        groups: Mapping[str, list[WorkloadPod]],
        assigned: Mapping[str, PlacementFacts],
    ) -> WorkloadSnapshot:
        """The snapshot with everything that other reconciles change. Must not pause."""
        workload, pods, observed = snapshot.workload, snapshot.pods, snapshot.jobs
        nodes = {pod.spec.node_name for pod in pods if pod_state.is_bound(pod) and not pod_state.is_gone(pod)}
        reachable = {name: self._cluster.is_reachable(name) for name in nodes}
        unreachable = frozenset(name for name, answer in reachable.items() if answer is False)
        missing = frozenset(name for name, answer in reachable.items() if answer is None)
        orphaned = self._orphaned_jobs(workload, pods, observed)
        ending = [*orphaned, *job_groups.ending_jobs(groups, observed, unreachable | missing)]
        unlabelled = frozenset(job for job in ending if self._is_unlabelled_elsewhere(workload, job))
        used = frozenset(job for job in ending if job not in unlabelled and self._is_used_elsewhere(workload, job))
        pending = {
            job: record for job, entry in observed.items() if (record := job_groups.pending_record(entry)) is not None
        }
        return replace(
            snapshot,
            unreachable_nodes=unreachable,
            missing_nodes=missing,
            orphaned_jobs=orphaned,
            queue_positions={job: self._queue_positions.describe(record) for job, record in pending.items()},
            start_ranges={
                job: start for job, record in pending.items() if (start := self._start_ranges.of(record)) is not None
            },
            unlabelled_elsewhere=unlabelled,
            used_elsewhere=used,
            submission=self._submission_facts(snapshot, groups),
            submissions_paused=self._attempts.pause_left(),
            refusals=self._refusals(snapshot, observed),
            avoided_hosts=self._attempts.avoided_hosts(workload),
            placements={
                job: self._nodes.observe(job, job_groups.active_pods(groups[job]), facts)
                for job, facts in assigned.items()
            },
            hosts=self._hosts_of(nodes) if snapshot.lost_job_specs else {},
            lost_evictions_left=self._attempts.evictions.lost_left() if job_groups.has_ended_jobs(observed) else 0,
            failed_evictions_left=self._attempts.evictions.failed_left() if job_groups.has_ended_jobs(observed) else 0,
        )

    def _group_pods(
        self, workload: Workload, pods: Sequence[WorkloadPod]
    ) -> tuple[dict[str, str], dict[str, list[WorkloadPod]]]:
        """The jobs of pods without a label, and the pods of each job. Jobs of pods that are finished and released are
        left out: there may be thousands of them.
        """
        adopted = self._registry.adoptable_jobs(workload, pods)
        groups: dict[str, list[WorkloadPod]] = {
            job: [] for job in job_groups.labelled_jobs(pods).keys() | set(adopted.values())
        }
        for pod in pods:
            job = pod_state.job_id(pod) or adopted.get(pod.metadata.uid, "")
            if job in groups:
                groups[job].append(pod)
        return adopted, groups

    def _observe_jobs(
        self, snapshot: WorkloadSnapshot, groups: Mapping[str, list[WorkloadPod]]
    ) -> dict[str, ObservedJob]:
        digest_of = job_groups.spec_digest_of
        return {
            job: self._registry.observe(job, pods, digest_of(snapshot.job_spec, pods)).beside(self._hosts_in_use(pods))
            for job, pods in groups.items()
        }

    def _hosts_in_use(self, pods: Iterable[WorkloadPod]) -> set[str]:
        """The hosts on which these pods run, as far as their nodes exist."""
        return {*self._hosts_of({pod.spec.node_name for pod in job_groups.running_pods(pods)}).values()}

    def _find_shortage(
        self,
        snapshot: WorkloadSnapshot,
        groups: Mapping[str, list[WorkloadPod]],
        observed: Mapping[str, ObservedJob],
    ) -> SubmissionFacts:
        """Whether there are too few nodes for a job that is about to be submitted or updated."""
        job_spec, new_pods = snapshot.job_spec, job_groups.pods_without_job(snapshot.pods, groups)
        joins = any(job_groups.pending_record(job) and (new_pods or job.stale) for job in observed.values())
        if job_spec is None or not (joins or (new_pods and job_spec.is_for(new_pods))):
            return SubmissionFacts()
        exclusions = self._job_specs.exclusions
        return SubmissionFacts(
            room_shortage=exclusions.room_shortage(job_spec),
            host_shortage=exclusions.find_host_shortage(job_spec),
        )

    def _submission_facts(self, snapshot: WorkloadSnapshot, groups: Mapping[str, list[WorkloadPod]]) -> SubmissionFacts:
        """Whether pods without a job may be submitted now."""
        shortage, new_pods = snapshot.submission, job_groups.pods_without_job(snapshot.pods, groups)
        if not new_pods:
            return shortage
        return replace(
            self._attempts.submission_facts(snapshot.workload, identity.members_digest(new_pods)),
            searched=self._registry.is_searched_for(new_pods),
            room_shortage=shortage.room_shortage,
            host_shortage=shortage.host_shortage,
        )

    def _refusals(self, snapshot: WorkloadSnapshot, jobs: Collection[str]) -> dict[str, Refusal]:
        """The last rejections of what the waiting pods request, as a submission and as an update of their job."""
        if snapshot.job_spec is None or not self._attempts.has_refusals:
            return {}
        namespace, digest = snapshot.workload.namespace, identity.request_digest(snapshot.job_spec.requests)
        answers = {job: self._attempts.refusal(namespace, job, digest) for job in (SUBMISSION, *jobs)}
        describe = self._job_specs.exclusions.describe_unknown_name
        return {
            job: replace(refusal, detail=describe(refusal.number, snapshot.job_spec))
            for job, refusal in answers.items()
            if refusal is not None
        }

    def _hosts_of(self, nodes: Iterable[str]) -> dict[str, str]:
        found = {name: self._cluster.nodes.get(Key("", name)) for name in nodes}
        return {name: pod_state.host_of(node) for name, node in found.items() if node is not None}

    # --- jobs that end

    def _orphaned_jobs(
        self, workload: Workload, pods: Sequence[WorkloadPod], observed: Mapping[str, ObservedJob]
    ) -> list[str]:
        """Live jobs of the workload that no pod is labelled with. A new job for running pods whose own job was lost is
        not orphaned, although the pods do not have its label yet.
        """
        entries = [entry for entry in self._registry.entries_of(workload) if entry.job not in observed]
        if not entries:
            return []
        without_live_job = [
            pod
            for pod in pods
            if pod_state.is_bound(pod)
            and not pod_state.is_gone(pod)
            and not pod.metadata.deleting
            and (job := pod_state.job_id(pod))
            and observed[job].knowledge is not JobKnowledge.LIVE
        ]
        return [
            entry.job
            for entry in entries
            if not self._registry.pods_submitted_with(entry, without_live_job)
            and self._registry.is_ours(entry.job)
            and self._registry.is_live(entry.job)
        ]

    def _is_unlabelled_elsewhere(self, workload: Workload, job: str) -> bool:
        """Whether a job was submitted for exactly the pods that have left the workload, which lack its label.

        The binding writes the label, and the watch reports it later. If a batch job is deleted in between, the pods of
        its gang are observed without owner and label.
        """
        neighbours = self._cluster.pods.by("group", grouping.group_key(workload))
        others = [pod for pod in neighbours if self._cluster.workload_of(pod) != workload]
        return job in self._registry.adoptable_jobs(workload, others).values()

    def _is_used_elsewhere(self, workload: Workload, job: str) -> bool:
        """Whether pods of other workloads use a job: they have its label, and the job lists them."""
        labelled = [
            pod
            for pod in self._cluster.pods.by("job", job)
            if self._cluster.workload_of(pod) != workload and not pod_state.is_gone(pod)
        ]
        if not labelled:
            return False
        observed = self._registry.observe(job, labelled, "")
        return observed.knowledge in (JobKnowledge.LIVE, JobKnowledge.UNKNOWN) or observed.live_components


async def _yield_if_large(pods: Sequence[WorkloadPod]) -> None:
    """Let other tasks run between two steps for a large gang: each step reads every pod."""
    if len(pods) > LARGE_GANG:
        await asyncio.sleep(0)
