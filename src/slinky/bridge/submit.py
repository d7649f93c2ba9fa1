# SPDX-License-Identifier: Apache-2.0
"""A wish becomes a job, once.

A job that already stands for exactly these pods is adopted. If the cluster seems to have room, the job is placed at
once (one try: every refusal leaves a record), otherwise and always else it is queued. When nobody knows whether a
submission went through, Slurm is searched before the next one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slinky.bridge import identity
from slinky.bridge.ledger import Entry, Ledger
from slinky.bridge.translate import Wish
from slinky.bridge.views import Pod
from slinky.bridge.workload import Unit
from slinky.kube import Later
from slinky.observe import Clock, Log, counter, histogram
from slinky.slurm import Busy, Client, Conflict, JobRequest, Mirror, NotFound, Retryable
from slinky.slurm import Node as Host

log = Log("slinky.bridge.submit")

SUBMITTED = counter("slinky_bridge_submissions_total", "Jobs submitted, by how.", "how")
SUBMIT_SECONDS = histogram("slinky_bridge_submit_seconds", "How long Slurm took to accept a job.")

#: Allocations younger than this may not show in the list of hosts yet.
UNSEEN = 5.0
#: Fields that a job keeps for life; sending them again in an update is refused or ignored.
FIXED = ("flags", "current_working_directory", "mcs_label", "shared", "user_id", "group_id", "hold", "immediate")


class Submitter:
    """Gives units their jobs."""

    def __init__(self, client: Client, mirror: Mirror, ledger: Ledger, clock: Clock, *, allocate_first: bool) -> None:
        self._client, self._mirror, self._ledger, self._clock = client, mirror, ledger, clock
        self._allocate_first = allocate_first
        self._doubtful: set[Unit] = set()
        self._taken: list[tuple[float, int]] = []

    async def submit(self, unit: Unit, wish: Wish, pods: Iterable[Pod]) -> str:
        """The job that stands for these pods. Raises what Slurm answers."""
        group = list(pods)
        if not self._ledger.searched.is_set():
            raise Later("Slurm has not been searched for our jobs yet", after=1)
        if unit in self._doubtful:
            await self._ledger.search()
            self._doubtful.discard(unit)
        if (known := self.standing(unit, group)) is not None:
            return known.job
        request = identity.sign(wish.request, self._ledger.me, str(unit), group)
        try:
            with SUBMIT_SECONDS.time():
                job = await self._send(request)
        except Retryable as error:
            if error.maybe_applied:
                self._doubtful.add(unit)
            raise
        self._ledger.note(Entry(job, unit, identity.members(group), identity.digest(wish.request)))
        return job

    def standing(self, unit: Unit, pods: Iterable[Pod]) -> Entry | None:
        """A live job that already stands for exactly these pods."""
        members = identity.members(pods)
        fitting = [entry for entry in self._ledger.jobs_of(unit) if entry.members == members]
        return next((entry for entry in fitting if self._ledger.live(entry.job)), None)

    async def _send(self, request: JobRequest) -> str:
        if self._allocate_first and self._room(request):
            try:
                accepted = await self._client.allocate(request)
            except Busy as error:
                log.info("no room after all, queueing instead", why=str(error))
            else:
                self._taken.append((self._clock.monotonic(), int(request.nodes or 1)))
                SUBMITTED.labels("allocate").inc()
                return str(accepted.job_id)
        accepted = await self._client.submit(request)
        SUBMITTED.labels("submit").inc()
        return str(accepted.job_id)

    def _room(self, request: JobRequest) -> bool:
        now = self._clock.monotonic()
        self._taken = [(at, nodes) for at, nodes in self._taken if now - at < UNSEEN]
        queue = any(record.state.pending for record in self._mirror.jobs.values())
        return not queue and has_room(request, self._mirror.nodes, sum(nodes for _, nodes in self._taken))

    async def revise(self, unit: Unit, job: str, wish: Wish, pods: Iterable[Pod]) -> bool:
        """Bring a waiting job up to a new wish; False if it does not wait any more."""
        group = list(pods)
        signed = identity.sign(wish.request, self._ledger.me, str(unit), group)
        change = msgspec.structs.replace(signed, **dict.fromkeys(FIXED))
        try:
            await self._client.update_job(int(job), change)
        except (Conflict, NotFound):
            self._mirror.poke()
            return False
        self._ledger.note(Entry(job, unit, identity.members(group), identity.digest(wish.request)))
        return True


def has_room(request: JobRequest, hosts: Mapping[str, Host], taken: int) -> bool:
    """Whether a job would start now, as far as a look at the hosts can tell.

    A guess: it only decides which of two doors is tried first. Jobs that are meant to wait are not tried at all.
    """
    if request.hold or request.dependency or request.begin_time or request.reservation or request.licenses:
        return False
    excluded = set(request.excluded_nodes or ())
    idle = sum(
        host.state.idle and host.state.schedulable and name not in excluded
        for name, host in hosts.items()
        if not request.partition or request.partition in host.partitions
    )
    return idle - taken >= int(request.nodes or 1)
