# SPDX-License-Identifier: Apache-2.0
"""The registry of the bridge's Slurm jobs: which workload and which pods each job was submitted for.

The registry is data: it reads nothing from Slurm itself. The mirror tracks the registered jobs one by one, and
`job_discovery` registers jobs that only Slurm knows.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import hetjob, identity, pod_state
from slinky.bridge.workload.grouping import Workload, parse_workload
from slinky.bridge.workload.identity import AdminComment, BridgeIdentity, JobSignature
from slinky.kube.timestamps import unix_seconds
from slinky.slurm import Job, JobRecord, Mirror, Presence

#: Seconds by which the clocks of the API server and of slurmctld may differ.
MAX_CLOCK_SKEW = 300.0


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A registered job: its workload, its pods, and the signature that was last written to it."""

    job: str
    workload: Workload
    #: Empty while the job is known only by the label of a pod.
    signature: JobSignature = field(default_factory=JobSignature)
    pods: frozenset[str] = frozenset()  # "namespace/name"

    @property
    def members_digest(self) -> str:
        """The digest of the uids of its pods."""
        return self.signature.members


class JobRegistry:
    """The jobs of this bridge."""

    def __init__(self, mirror: Mirror, bridge: BridgeIdentity) -> None:
        self._mirror, self.bridge = mirror, bridge
        #: Set once Slurm has been searched for jobs of this bridge; before that, see `is_searched_for`.
        self.searched = asyncio.Event()
        #: Every job that was submitted after this time (in Unix seconds) has been read in the first search.
        self.searched_since = float("inf")
        self._entries: dict[str, JobEntry] = {}
        self._by_workload: dict[Workload, set[str]] = {}
        self._leader_of: dict[str, str] = {}  # by the id of a later component of a heterogeneous job
        self._components: dict[str, set[str]] = {}  # the later components of a heterogeneous job, by its leader
        self._ended: set[str] = set()  # ended by this bridge; the mirror may not show it yet
        self._settled: set[str] = set()  # the outcome of the pods is in accounting, or is no longer awaited

    def track(self, entry: JobEntry) -> None:
        """Register a job and let the mirror track it."""
        self._add(entry)
        self._mirror.track(entry.job)

    async def record_submitted(self, entry: JobEntry, *, exact: bool) -> None:
        """Register a job that was just submitted and read its allocation.

        `exact` also reads the ids of cores and devices, which only workloads that claim devices need.
        """
        self._add(entry)
        await self._mirror.read_job(entry.job, exact_resources=exact)

    def _add(self, entry: JobEntry) -> None:
        self._entries[entry.job] = entry
        self._by_workload.setdefault(entry.workload, set()).add(entry.job)

    def track_labelled(self, job: str, workload: Workload, sluid: str = "") -> None:
        """Register the job that a pod is labelled with, unless it is registered already.

        With the SLUID, the end of a job that slurmctld has purged can be read from accounting, where ids are reused.
        """
        if job not in self._entries:
            self._add(JobEntry(job, workload))
            self._mirror.track(job, sluid)

    def forget(self, job: str) -> None:
        """Remove a job, its components, and its role as a component of another job."""
        if (entry := self._entries.pop(job, None)) is not None:
            self._remove_from_workload(entry)
        self._forget_component(job)
        self._ended.discard(job)
        self._settled.discard(job)
        for component in self._components_of(job):
            self._forget_component(component)
            self._mirror.forget(component)
        self._mirror.forget(job)

    def _forget_component(self, component: str) -> None:
        leader = self._leader_of.pop(component, "")
        components = self._components.get(leader, set())
        components.discard(component)
        if not components:
            self._components.pop(leader, None)

    def revive(self, job: str) -> None:
        """Observe a registered job anew that has ended and is in Slurm again, because slurmctld lost its end."""
        entry = self._entries[job]
        self.forget(job)
        self.track(entry)

    def _remove_from_workload(self, entry: JobEntry) -> None:
        jobs = self._by_workload.get(entry.workload, set())
        jobs.discard(entry.job)
        if not jobs:
            self._by_workload.pop(entry.workload, None)

    def is_searched_for(self, pods: Iterable[WorkloadPod]) -> bool:
        """Whether the search has read every job that can have been submitted for these pods; only then a job may be
        submitted for them. A search begins with the newest job, so it soon has read all that are younger than a pod.
        """
        if self.searched.is_set():
            return True
        created = min((unix_seconds(pod.metadata.creation_timestamp) for pod in pods), default=0.0)
        return created - MAX_CLOCK_SKEW > self.searched_since

    def resolve_workload(self, job: str) -> Workload | None:
        """The workload of a job or of a component.

        An entry that came from a pod label is moved to the workload of the job's signature once that has been read.
        """
        entry = self._entries.get(self._leader_of.get(job, job))
        if entry is not None and not entry.members_digest:
            entry = self._complete_entry(entry)
        return entry.workload if entry else None

    def _complete_entry(self, entry: JobEntry) -> JobEntry:
        """Complete an entry that came from a pod label with the signature in Slurm, if that has been read."""
        comment = self._comment_of(entry.job)
        if comment is None or not identity.is_ours(comment, self.bridge):
            return entry
        if (workload := parse_workload(comment.slinky.workload)) is None:
            return entry
        self._remove_from_workload(entry)
        completed = JobEntry(entry.job, workload, comment.slinky, frozenset(comment.pods))
        self._add(completed)
        return completed

    def signature_of(self, job: str) -> JobSignature:
        """The last signature of a job: from the registry, otherwise from slurmctld."""
        entry, comment = self._entries.get(job), self._comment_of(job)
        if entry and entry.signature.v:
            return entry.signature
        return comment.slinky if comment else JobSignature()

    def entries_of(self, workload: Workload) -> list[JobEntry]:
        """The jobs of a workload, oldest first."""
        return [self._entries[job] for job in sorted(self._by_workload.get(workload, ()), key=int)]

    def adoptable_jobs(self, workload: Workload, pods: Sequence[WorkloadPod]) -> dict[str, str]:
        """The live jobs of pods without a job label, by pod uid.

        A job belongs to exactly the pods that it was submitted for: once one of them is gone or replaced, no pod can
        adopt the job.
        """
        unlabelled = [pod for pod in pods if not pod_state.job_id(pod) and not pod_state.is_gone(pod)]
        jobs: dict[str, str] = {}
        for entry in self.entries_of(workload) if unlabelled else ():
            uids = {pod.metadata.uid for pod in self.pods_submitted_with(entry, pods)}
            if uids and self.is_live(entry.job):
                jobs.update((pod.metadata.uid, entry.job) for pod in unlabelled if pod.metadata.uid in uids)
        return jobs

    def pods_submitted_with(self, entry: JobEntry, pods: Iterable[WorkloadPod]) -> list[WorkloadPod]:
        """Those of these pods that a job was submitted for; empty unless all of them are among `pods`."""
        digest, pod_names = self._submitted_pods(entry)
        members = [pod for pod in pods if str(pod.key) in pod_names]
        return members if identity.members_digest(members) == digest else []

    def _submitted_pods(self, entry: JobEntry) -> tuple[str, Collection[str]]:
        """The digest and the names of the pods of a job: from the registry, otherwise from its signature."""
        if entry.members_digest or not self.is_ours(entry.job):
            return entry.members_digest, entry.pods
        comment = self._comment_of(entry.job) or AdminComment()
        return comment.slinky.members, frozenset(comment.pods)

    def __contains__(self, job: str) -> bool:
        return job in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))

    # --- observing a job

    def observe(self, job: str, pods: Sequence[WorkloadPod], spec_digest: str) -> ObservedJob:
        """The state of the job that `pods` are labelled with; `spec_digest` is the digest of their current spec.

        Starts to track the components of a heterogeneous job.
        """
        presence, record = self._mirror.lookup_job(job)
        if presence is Presence.UNKNOWN or record is None or (presence is Presence.PRESENT and record.detail is None):
            return ObservedJob(JobKnowledge.UNKNOWN, record)
        if record.detail is not None and pods and not self._stands_for_any(pods, record.detail):
            return ObservedJob(JobKnowledge.FOREIGN, record)
        if presence is Presence.ABSENT:
            return self._over(job, record)
        components = self.track_components(job)
        if components is None:
            return ObservedJob(JobKnowledge.UNKNOWN, record)
        merged = hetjob.merge_components(components)
        if merged.over:
            return self._over(job, merged)
        hosts = _hosts_of(components) if merged.state.ready else frozenset()
        return ObservedJob(JobKnowledge.LIVE, merged, stale=self._is_stale(job, spec_digest), hosts=hosts)

    def _stands_for_any(self, pods: Sequence[WorkloadPod], detail: Job) -> bool:
        comment = identity.parse_comment(detail.admin_comment)
        return any(identity.stands_for_pod(comment, self.bridge, pod, detail) for pod in pods)

    def _over(self, job: str, record: JobRecord) -> ObservedJob:
        # Without its detail, nothing proves that the accounting record with this id is that of the pods.
        settled = record.lost or record.detail is None or self.is_outcome_settled(job)
        return ObservedJob(
            JobKnowledge.OVER,
            record,
            live_components=self.is_live(job),
            ended_here=job in self._ended,
            outcome_settled=settled,
        )

    def track_components(self, job: str) -> list[JobRecord] | None:
        """The records of the components of a job (an ordinary job has one); None while one of them is unknown.

        Starts to track components that are not tracked yet.
        """
        leader = self._mirror.jobs.get(job)
        if leader is None:
            return None
        records = [leader]
        for component in hetjob.component_ids(leader.detail):
            if component not in self._leader_of:
                self._leader_of[component] = job
                self._components.setdefault(job, set()).add(component)
                self._mirror.track(component)
            presence, record = self._mirror.lookup_job(component)
            if record is None or presence is Presence.UNKNOWN or not (record.over or record.detail):
                return None
            records.append(record)
        return records

    def _components_of(self, job: str) -> list[str]:
        return sorted(self._components.get(job, ()), key=int)

    def _is_stale(self, job: str, spec_digest: str) -> bool:
        """Whether the pods request something else than the job, or the job has a former name of the bridge."""
        submitted = self.signature_of(job)
        if not (spec_digest and submitted.spec):
            return False
        return submitted.spec != spec_digest or identity.is_renamed(submitted, self.bridge)

    def is_live(self, job: str) -> bool:
        """Whether a job or a component may still be pending or hold nodes. An unknown state counts as live."""
        return any(map(self._is_component_live, (job, *self._components_of(job))))

    def record_ended(self, job: str) -> None:
        """Record that this bridge ended a job, so that no pod adopts it before the mirror shows the end."""
        self._ended.add(job)

    def settle_outcome(self, job: str) -> None:
        """Record that the finalizers of the pods of a job need not wait for the record of their outcome any more."""
        if job in self._entries:
            self._settled.add(job)

    def is_outcome_settled(self, job: str) -> bool:
        """Whether `settle_outcome` was called for a job."""
        return job in self._settled

    def _is_component_live(self, job: str) -> bool:
        if self._leader_of.get(job, job) in self._ended:
            return False
        presence, record = self._mirror.lookup_job(job)
        return not (presence is Presence.ABSENT or (record is not None and record.over))

    def is_ours(self, job: str) -> bool:
        """Whether a job has the signature of this bridge; False while slurmctld's record has not been read."""
        return identity.is_ours(self._comment_of(job), self.bridge)

    def _comment_of(self, job: str) -> AdminComment | None:
        record = self._mirror.jobs.get(job)
        return identity.parse_comment(record.detail.admin_comment) if record and record.detail else None

    def is_running(self, job: str) -> bool:
        """Whether a job has its nodes and they are known."""
        record = self._mirror.jobs.get(job)
        return record is not None and record.state.ready and bool(record.resources)

    def sluid(self, job: str) -> str:
        """The SLUID of a job, which Slurm never reuses; empty if it is unknown."""
        record = self._mirror.lookup_job(job).record  # also of a job that slurmctld no longer knows
        return record.sluid if record else ""

    def ids_to_end(self, job: str) -> list[str]:
        """The ids that end a job: the leader's, which ends all components, or those of components that outlived it."""
        live = [component for component in self._components_of(job) if self._is_component_live(component)]
        if self._is_component_live(job) or not live:
            return [self.sluid(job) or job]
        return [self.sluid(component) or component for component in live]


def _hosts_of(components: Iterable[JobRecord]) -> frozenset[str]:
    """The hosts of all components; empty if those of one are not known."""
    resources = [component.resources for component in components]
    return frozenset(host.node for hosts in resources for host in hosts or ()) if all(resources) else frozenset()
