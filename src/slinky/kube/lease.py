# SPDX-License-Identifier: Apache-2.0
"""Leader election with a Lease, so that only one of several replicas works.

The lease of another replica counts as expired only after it has been unchanged for its whole duration on the local
monotonic clock. So clocks that differ or jump never lead to two leaders. A leader that cannot renew its lease in time
stops its work and raises `LeadershipLost`.

`connect_election` gives the election a connection of its own: while the API server is slow, the requests of the
reconciles occupy all slots of theirs, and a lease that waits behind them would be lost.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from slinky.kube.client import KubeClient, connect
from slinky.kube.errors import Conflict, KubeError, LeadershipLost
from slinky.kube.metrics import LEADING
from slinky.kube.timestamps import format_micro_timestamp
from slinky.kube.types import Key
from slinky.kube.views import LEASES, Lease
from slinky.observe import Health, Log

log = Log("slinky.kube.lease")


@dataclass(frozen=True)
class LeaseTiming:
    """The duration of a lease, when its holder stops if it cannot renew, and the renewal interval; in seconds.

    In the time between `give_up` and `duration`, the old leader has stopped and no new one can have started.
    """

    duration: float = 15.0
    give_up: float = 10.0
    interval: float = 2.0


@dataclass(frozen=True)
class LeaseObservation:
    """A version of the lease, and when this replica first read it."""

    version: str
    first_read: float


def may_acquire(lease: Lease, identity: str, observation: LeaseObservation, now: float) -> bool:
    """Whether the lease is free, held by `identity`, or unchanged for its whole duration."""
    holder = lease.spec.holder_identity
    if not holder or holder == identity:
        return True
    return now - observation.first_read >= (lease.spec.lease_duration_seconds or 0)


class Election:
    """Leader election of one process; `identity` must be unique among the processes."""

    def __init__(
        self,
        client: KubeClient,
        lease: Key,
        identity: str,
        *,
        timing: LeaseTiming | None = None,
        health: Health | None = None,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._rng: random.Random = client.rng
        self._key = lease
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._observation = LeaseObservation("", 0.0)
        self._gauge = LEADING.labels(str(lease))
        self._renewed: float | None = None
        if health:
            health.add_liveness_check("lease", self.check)

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease and the lease has not expired."""
        return self._renewed is not None and self._age() < self._timing.duration

    def check(self) -> str | None:
        """A liveness check: fails if the leader still works long after its lease expired, because it hangs."""
        hangs = self._renewed is not None and self._age() > 2 * self._timing.duration
        return f"the leader still works {self._age():.0f} s after the last renewal of its lease" if hangs else None

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `work` as the leader; `LeadershipLost` if the lease cannot be renewed."""
        await self._acquire()
        log.info("this process is the leader", lease=self._key, identity=self._identity)
        self._gauge.set(1)
        try:
            await self._lead(work)
        finally:
            self._gauge.set(0)
            was_leading = self.leading
            self._renewed = None
            if was_leading:
                await self._release()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        lost: LeadershipLost | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                renewal = tasks.create_task(self._renew())
                await work()
                renewal.cancel()
        except* LeadershipLost as group:
            lost = LeadershipLost(str(group.exceptions[0]))
        if lost:
            raise lost

    async def _acquire(self) -> None:
        while not await self._try_acquire(self._client.deadline):
            await self._clock.sleep(self._timing.interval * self._rng.uniform(1.0, 1.5))

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._timing.interval)
            remaining = self._timing.give_up - self._age()
            if remaining <= 0:
                raise LeadershipLost(f"the lease {self._key} could not be renewed for {self._age():.0f} s")
            if not await self._try_acquire(remaining) and self._observation.version:
                log.info("renewing the lease failed", lease=self._key, age=round(self._age(), 1))

    def _age(self) -> float:
        return self._clock.monotonic() - self._renewed if self._renewed is not None else 0.0

    async def _try_acquire(self, deadline: float) -> bool:
        """Acquire or renew the lease; False if another replica holds it or the server did not confirm."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(deadline):
                acquired = await self._acquire_or_renew()
        except LeadershipLost:
            raise
        except Conflict:
            return False
        except (KubeError, TimeoutError) as error:
            log.info("reading or writing the lease failed", lease=self._key, error=error)
            return False
        if acquired:
            self._renewed = started  # the time before the request: the server wrote the renewal later than this
        return acquired

    async def _acquire_or_renew(self) -> bool:
        lease = await self._client.find(LEASES, self._key)
        if lease is None:
            await self._client.create(LEASES, LEASES.manifest(self._key, spec=self._spec(None)))
            return True
        now = self._clock.monotonic()
        if lease.metadata.resource_version != self._observation.version:
            self._observation = LeaseObservation(lease.metadata.resource_version, now)
        if not may_acquire(lease, self._identity, self._observation, now):
            if self._renewed is not None:
                raise LeadershipLost(f"the lease {self._key} is held by {lease.spec.holder_identity}")
            return False
        await self._write(lease, self._spec(lease))
        return True

    async def _release(self) -> None:
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._timing.interval):
                lease = await self._client.get(LEASES, self._key)
                if lease.spec.holder_identity == self._identity:
                    await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _write(self, lease: Lease, spec: dict[str, object]) -> None:
        # The resource version makes the patch conditional: of two replicas only the first one succeeds.
        meta = {"resourceVersion": lease.metadata.resource_version}
        await self._client.patch(LEASES, self._key, {"metadata": meta, "spec": spec})

    def _spec(self, lease: Lease | None) -> dict[str, object]:
        now = format_micro_timestamp(self._clock.now())
        spec: dict[str, object] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._timing.duration),
            "renewTime": now,
        }
        if lease is None or lease.spec.holder_identity != self._identity:
            transitions = (lease.spec.lease_transitions or 0) + 1 if lease else 0
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        return spec


@contextlib.asynccontextmanager
async def connect_election(
    name: str, identity: str, *, namespace: str = "", kubeconfig: Path | str | None = None, health: Health | None = None
) -> AsyncIterator[Election]:
    """An election for the lease `name` over a connection of its own, in the namespace of the process by default."""
    async with connect(kubeconfig, manager=name) as client:
        yield Election(client, Key(namespace or client.namespace, name), identity, health=health)
