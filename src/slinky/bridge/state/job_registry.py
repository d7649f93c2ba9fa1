# SPDX-License-Identifier: Apache-2.0
"""Which jobs are ours and what they stand for.

After a start, and after a submission of which nobody knows whether it went through, the live jobs of Slurm are
searched once for our signature: what is found is adopted, never submitted twice. Apart from that no list of jobs is
ever read; the mirror follows the jobs we name.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from slinky.bridge.lifecycle.actions import JobKnowledge, ObservedJob
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import hetjob, identity, pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import AdminComment, BridgeIdentity, JobSignature
from slinky.observe import Log
from slinky.slurm import Job, JobRecord, Mirror, Presence, SlurmClient, SlurmNotFound

log = Log("slinky.bridge.state.job_registry")

#: Up to so many jobs are looked at one by one; beyond, one full list is cheaper.
SINGLE_READS_MAX = 200
CONCURRENCY = 4


@dataclass(frozen=True)
class JobEntry:
    """A job of ours: what it stands for, for which pods, and what was last asked for in its name."""

    job: str
    workload: Workload
    signature: JobSignature = field(
        default_factory=JobSignature
    )  # as last signed; empty while only a label has led us to it
    pods: frozenset[str] = frozenset()  # by name

    @property
    def members_digest(self) -> str:
        """A digest of its pods."""
        return self.signature.members


class JobRegistry:
    """The jobs of this bridge."""

    def __init__(
        self, client: SlurmClient, mirror: Mirror, me: BridgeIdentity, named: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """`named` tells the jobs that pods are labelled with: they need no search."""
        self._client, self._mirror, self._named = client, mirror, named
        self.bridge = me
        self.searched = asyncio.Event()
        self._entries: dict[str, JobEntry] = {}
        self._by_unit: dict[Workload, set[str]] = {}
        self._strangers: set[str] = set()
        self._leader_of: dict[str, str] = {}  # later components of heterogeneous jobs, by their own ids
        self._condemned: set[str] = set()  # ended by ourselves, which the mirror may not have seen yet

    def track(self, entry: JobEntry) -> None:
        """Remember and follow a job."""
        self._remember(entry)
        self._mirror.track(entry.job)

    async def record_submitted(self, entry: JobEntry, *, exact: bool) -> None:
        """Remember a job that was just made, and read what Slurm has given it; nothing else is looked at for that.

        Cores and devices are read only for whom it matters which they are.
        """
        self._remember(entry)
        await self._mirror.look(entry.job, exact=exact)

    def _remember(self, entry: JobEntry) -> None:
        self._entries[entry.job] = entry
        self._by_unit.setdefault(entry.workload, set()).add(entry.job)

    def track_labelled(self, job: str, unit: Workload) -> None:
        """Follow a job that a pod is labelled with, if that is not done already."""
        if job not in self._entries:
            self.track(JobEntry(job, unit))

    def forget(self, job: str) -> None:
        """No pod and no plan needs this job any more, nor what was known under its id, as a component of another."""
        if (entry := self._entries.pop(job, None)) is not None:
            self._unfile(entry)
        self._leader_of.pop(job, None)
        self._condemned.discard(job)
        for known in (job, *self._parts_of(job)):
            self._leader_of.pop(known, None)
            self._mirror.forget(known)

    def _unfile(self, entry: JobEntry) -> None:
        jobs = self._by_unit.get(entry.workload, set())
        jobs.discard(entry.job)
        if not jobs:
            self._by_unit.pop(entry.workload, None)

    def resolve_workload(self, job: str) -> Workload | None:
        """What a job, or a component of one, stands for."""
        entry = self._entries.get(self._leader_of.get(job, job))
        if entry is not None and not entry.members_digest:
            entry = self._recognised(entry)
        return entry.workload if entry else None

    def signature_of(self, job: str) -> JobSignature:
        """What a job was last signed with, by our own memory, else by slurmctld's word."""
        entry, comment = self._entries.get(job), self._comment(job)
        return entry.signature if entry and entry.signature.v else comment.slinky if comment else JobSignature()

    def _recognised(self, entry: JobEntry) -> JobEntry:
        """A job that only a label led us to, filed by what it says of itself once Slurm has told."""
        comment = self._comment(entry.job)
        if comment is None or not identity.is_ours(comment, self.bridge):
            return entry
        mine = comment.slinky
        if (unit := unit_from(mine.unit)) is None:
            return entry
        self._unfile(entry)
        known = JobEntry(entry.job, unit, mine, frozenset(comment.pods))
        self._remember(known)
        return known

    def entries_of(self, unit: Workload) -> list[JobEntry]:
        """The jobs of a unit, oldest first."""
        return [self._entries[job] for job in sorted(self._by_unit.get(unit, ()), key=int)]

    def adoptable_jobs(self, unit: Workload, pods: Sequence[WorkloadPod]) -> dict[str, str]:
        """The jobs of pods that do not carry their name, by pod uid: live ones that were made for them.

        A job was made for exactly its pods: once one of them is gone, or another under its name, it is nobody's.
        """
        bare = [pod for pod in pods if not pod_state.job_id(pod) and not pod_state.is_gone(pod)]
        found: dict[str, str] = {}
        for entry in self.entries_of(unit) if bare else ():
            group = {pod.metadata.uid for pod in self.pods_submitted_with(entry, pods)}
            if group and self.is_live(entry.job):
                found.update((pod.metadata.uid, entry.job) for pod in bare if pod.metadata.uid in group)
        return found

    def pods_submitted_with(self, entry: JobEntry, pods: Iterable[WorkloadPod]) -> list[WorkloadPod]:
        """Those of these pods that a job was made for; none unless it was made for exactly them."""
        members, named = self._made_for(entry)
        group = [pod for pod in pods if str(pod.key) in named]
        return group if identity.members_digest(group) == members else []

    def _made_for(self, entry: JobEntry) -> tuple[str, Collection[str]]:
        """The pods that a job was made for: by our own memory, else by its signature."""
        if entry.members_digest or not self.is_ours(entry.job):
            return entry.members_digest, entry.pods
        comment = self._comment(entry.job) or AdminComment()
        return comment.slinky.members, frozenset(comment.pods)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[JobEntry]:
        return iter(list(self._entries.values()))

    # --- what is known of a job

    def observe(self, job: str, pods: Sequence[WorkloadPod], wanted: str) -> ObservedJob:
        """A job as it looks to the pods that carry its name; `wanted` is the digest of what they ask for now."""
        presence, record = self._mirror.whereabouts(job)
        if presence is Presence.ABSENT and record is not None:
            return ObservedJob(JobKnowledge.OVER, record, remains=self._remains(job))
        if presence is not Presence.PRESENT or record is None or record.detail is None:
            return ObservedJob(JobKnowledge.UNKNOWN, record)
        comment = identity.parse_comment(record.detail.admin_comment)
        if pods and not any(identity.stands_for_pod(comment, self.bridge, pod, record.sluid) for pod in pods):
            return ObservedJob(JobKnowledge.FOREIGN, record)
        known = self.track_components(job)
        if known is None:
            return ObservedJob(JobKnowledge.UNKNOWN, record)
        whole = hetjob.merge_components(known)
        if whole.over:
            return ObservedJob(JobKnowledge.OVER, whole, remains=self._remains(job))
        return ObservedJob(JobKnowledge.LIVE, whole, stale=self._stale(job, wanted))

    def track_components(self, job: str) -> list[JobRecord] | None:
        """The records of a job's components, an ordinary job being its only one; None while one is not known."""
        leader = self._mirror.jobs.get(job)
        if leader is None:
            return None
        found = [leader]
        for part in hetjob.component_ids(leader.detail):
            if part not in self._leader_of:
                self._leader_of[part] = job
                self._mirror.track(part)
            presence, record = self._mirror.whereabouts(part)
            if record is None or presence is Presence.UNKNOWN or not (record.over or record.detail):
                return None
            found.append(record)
        return found

    def _parts_of(self, job: str) -> list[str]:
        return sorted((part for part, leader in self._leader_of.items() if leader == job), key=int)

    def _remains(self, job: str) -> bool:
        """Whether a component may still hold or want nodes although another is over."""
        return any(map(self._alive, (job, *self._parts_of(job))))

    def _stale(self, job: str, wanted: str) -> bool:
        sent = self.signature_of(job).spec
        return bool(wanted and sent) and sent != wanted

    def is_live(self, job: str) -> bool:
        """Whether a job, or a component of it, may still hold or want nodes; only a positive end says no."""
        return self._remains(job)

    def record_ended(self, job: str) -> None:
        """Slurm has ended this job at our word: whoever comes next must not adopt it."""
        self._condemned.add(job)

    def _alive(self, job: str) -> bool:
        if self._leader_of.get(job, job) in self._condemned:
            return False
        presence, record = self._mirror.whereabouts(job)
        return not (presence is Presence.ABSENT or (record is not None and record.over))

    def is_ours(self, job: str) -> bool:
        """Whether a job carries our signature, by slurmctld's word; what is not known is not ours."""
        return identity.is_ours(self._comment(job), self.bridge)

    def _comment(self, job: str) -> AdminComment | None:
        record = self._mirror.jobs.get(job)
        return identity.parse_comment(record.detail.admin_comment) if record and record.detail else None

    def is_running(self, job: str) -> bool:
        """Whether a job has its nodes, and it is known which."""
        record = self._mirror.jobs.get(job)
        return record is not None and record.state.ready and bool(record.resources)

    def sluid(self, job: str) -> str:
        """The name of a job that is never used again, if known."""
        record = self._mirror.jobs.get(job)
        return record.sluid if record else ""

    def ids_to_end(self, job: str) -> list[str]:
        """By which names to end a job: its own ends every component, unless it is over before the others."""
        if self._alive(job) or not (left := [part for part in self._parts_of(job) if self._alive(part)]):
            return [self.sluid(job) or job]
        return [self.sluid(part) or part for part in left]

    # --- searching

    async def search(self) -> None:
        """Find our live jobs in Slurm and remember those we did not know."""
        states = await self._client.job_states()
        # A component of a heterogeneous job is listed as `id+offset`, and its id is its own.
        ids = (status.job_id.partition("+")[0] for status in states if status.state.live)
        live = {job for job in ids if job.isdigit()}
        self._strangers &= live
        unknown = live - self._entries.keys() - self._strangers - set(self._named())
        found = 0
        for job in await self._read(unknown):
            comment = identity.parse_comment(job.admin_comment)
            if comment is None or not identity.is_ours(comment, self.bridge):
                self._strangers.add(str(job.job_id))
                continue
            unit = unit_from(comment.slinky.unit)
            follower = job.het_job_id.whole not in {0, job.job_id} and str(job.het_job_id.whole) in live
            if unit is not None and not follower:
                found += 1
                self.track(JobEntry(str(job.job_id), unit, comment.slinky, frozenset(comment.pods)))
        log.info("searched Slurm for jobs of ours", live=len(live), found=found)
        self.searched.set()

    async def _read(self, jobs: Iterable[str]) -> list[Job]:
        wanted = sorted(jobs, key=int)
        if len(wanted) > SINGLE_READS_MAX:
            listing = await self._client.jobs()
            chosen = set(wanted)
            return [job for job in (listing.items if listing else ()) if str(job.job_id) in chosen]
        limit = asyncio.Semaphore(CONCURRENCY)

        async def one(job: str) -> Job | None:
            async with limit:
                try:
                    return await self._client.job(job)
                except SlurmNotFound:
                    return None

        async with asyncio.TaskGroup() as family:
            tasks = [family.create_task(one(job)) for job in wanted]
        return [found for task in tasks if (found := task.result()) is not None]


def unit_from(text: str) -> Workload | None:
    """The unit that a signature names."""
    parts = text.split("/")
    return Workload(*parts) if len(parts) in {3, 4} else None
