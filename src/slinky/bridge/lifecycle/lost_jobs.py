# SPDX-License-Identifier: Apache-2.0
"""Pods that run while Slurm has lost their job: they get a new one on their nodes, or leave, a few at a time.

slurmctld forgets the last seconds before a crash, and everything if its state is lost. Containers do not care; what
must not happen is that their nodes are given to somebody else, or that all of them are deleted because of it. A
refusal alone moves nobody: a drained host, a missing account or a closed partition may be mended.
"""

import contextlib
from collections.abc import Iterable, Sequence

from slinky.bridge import names
from slinky.bridge.lifecycle.pod_writer import PodWriter, each
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Later
from slinky.kube.conditions import find_condition
from slinky.kube.rate_limit import RateLimit
from slinky.observe import Clock, Log, counter
from slinky.slurm import Busy, JobRequest, Mirror, Rejected, SlurmClient, SlurmNotFound

log = Log("slinky.bridge.lifecycle.lost_jobs")

RECLAIMED = counter(
    "slinky_bridge_reclaimed_total", "Running pods whose lost job was replaced, by how that ended.", "how"
)

#: What is said of pods that keep running without a job: there is none yet, or they may not leave yet.
JOBLESS = frozenset({"LostJobNotReplaced", "EvictionBraked"})
#: How soon pods that may not leave yet are looked at again.
BRAKED_AGAIN = 60.0
#: Seconds in which `lost_pods_evicted` pods may be evicted. A job that slurmctld reports as ended is a fact, and its
#: pods are evicted at once, however many. A job that slurmctld no longer knows may be the fault of a database, a
#: restored backup or a wrong address, so an administrator should have time to act.
EVICTION_WINDOW = 600.0
#: How soon Slurm is asked again for nodes that it refused, though nobody else has them.
REFUSED_AGAIN = 30.0
#: The same for a host that Slurm does not know: it is made again at this moment.
UNKNOWN_AGAIN = 3.0


class LostJobs:
    """Looks after pods whose job is lost."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        stock: ClusterState,
        submitter: Submitter,
        hands: PodWriter,
        evictions_per_window: int,
        clock: Clock,
    ) -> None:
        self._client, self._mirror, self._stock = client, mirror, stock
        self._submitter, self._hands = submitter, hands
        self._evictions, self._evictions_per_window = RateLimit(EVICTION_WINDOW), evictions_per_window
        self._clock = clock

    async def reclaim(
        self, unit: Workload, wish: JobSpec | None, pods: tuple[WorkloadPod, ...], said: ConditionText
    ) -> None:
        """Give these pods new jobs on their nodes; those that cannot have one leave.

        Every role gets a job of its own: a heterogeneous one would have to wait for Slurm's backfill, and what it is
        for, the start of all together, is behind them.
        """
        if self._hosts(pods) is None:
            await self._evict(pods, said)
            return
        if wish is None:
            await self._stay(pods, said, "What it asks for cannot be told any more", REFUSED_AGAIN)
            return
        late: list[Later] = []
        for part in wish.split_by_role():
            try:
                await self._replace(unit, part, said)
            except Later as error:
                late.append(error)
        if late:
            raise late[0]

    async def _replace(self, unit: Workload, wish: JobSpec, said: ConditionText) -> None:
        """A new job for the pods of one role."""
        (pods,) = wish.roles
        hosts = self._hosts(pods)
        if hosts is None or not _repeatable(wish):
            await self._evict(pods, said)
            return
        try:
            job = await self._submitter.reclaim(unit, wish, hosts)
            sluid = (await self._client.job(job)).sluid
        except Rejected as error:
            log.info("the nodes of a lost job cannot be had again", unit=str(unit), why=str(error))
            if await self._given_away(error, wish.request, hosts):
                await self._evict(pods, said)
                return
            why = f"Slurm gives its nodes no new job yet: {error}"
            await self._stay(pods, said, why, UNKNOWN_AGAIN if isinstance(error, SlurmNotFound) else REFUSED_AGAIN)
        else:
            log.info("a lost job is replaced", unit=str(unit), job=job, pods=len(pods))
            RECLAIMED.labels("kept").inc(len(pods))
            await each(pods, lambda pod: self._hands.relabel(pod, job, sluid))

    async def _stay(self, pods: tuple[WorkloadPod, ...], said: ConditionText, why: str, after: float) -> None:
        """Leave pods where they are and say why they have no job. Raises `Later`."""
        told = f"{said.message} {why}. The pod stays."
        await self._hands.tell(pods, ConditionText(None, "LostJobNotReplaced", told), warning=True)
        raise Later(told, after=after)

    def _hosts(self, pods: Iterable[WorkloadPod]) -> list[str] | None:
        nodes = [self._stock.nodes.get(Key("", pod.spec.node_name)) for pod in pods]
        known = [pod_state.host_of(node) for node in nodes if node is not None]
        return sorted(set(known)) if len(known) == len(nodes) else None

    async def _given_away(self, error: Rejected, request: JobRequest, hosts: Sequence[str]) -> bool:
        """Whether a host is refused because others have it, by a list of hosts that is younger than the refusal.

        Neighbours are no proof on a shared host that takes no work at all.
        """
        if not isinstance(error, Busy):
            return False
        with contextlib.suppress(TimeoutError):
            await self._mirror.refresh()
            states = [self._mirror.nodes[host].state for host in hosts if host in self._mirror.nodes]
            taken = any(state.busy and (bool(request.shared) or state.schedulable) for state in states)
            return taken and self._mirror.nodes.unconfirmed_loss is None
        return False

    async def _evict(self, pods: tuple[WorkloadPod, ...], said: ConditionText) -> None:
        for pod in pods:
            now = self._clock.monotonic()
            if not self._evictions.remaining(self._evictions_per_window, now):
                told = f"{said.message} Too many jobs vanished at once: the pod stays until the next few may leave."
                await self._hands.say(pod, ConditionText(None, "EvictionBraked", told), warning=True)
                raise Later(told, after=BRAKED_AGAIN)
            self._evictions.record(now)
            RECLAIMED.labels("evicted").inc()
            await self._hands.evict(pod, said)


def news(pods: Iterable[WorkloadPod]) -> bool:
    """Whether a loss is new. Others must not wait again and again for pods that could not be helped before."""
    told = (find_condition(pod.status.conditions, names.SCHEDULED) for pod in pods)
    return not all(condition is not None and condition.reason in JOBLESS for condition in told)


def _repeatable(wish: JobSpec) -> bool:
    """Whether a new job means the same as the old one: Slurm may choose other devices, or other cores, where those of
    a node are not all the job's.
    """
    return bool(wish.request.shared) or not wish.needs_device_ids
