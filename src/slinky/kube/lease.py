# SPDX-License-Identifier: Apache-2.0
"""Only one of several replicas works: leader election by a Lease.

A rival's lease counts as expired only after we saw it unchanged for its whole duration on our own monotonic
clock, so clocks that jump or disagree elect nobody twice. A leader that could not renew in time stops its
work and raises; it never works on in doubt.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slinky.kube.client import KubeClient
from slinky.kube.errors import Conflict, KubeError, LeadershipLost
from slinky.kube.metrics import LEADING
from slinky.kube.timestamps import format_micro_timestamp
from slinky.kube.types import Key
from slinky.kube.views import LEASES, Lease
from slinky.observe import Health, Log

log = Log("slinky.kube.lease")


@dataclass(frozen=True)
class LeaseTiming:
    """How long a lease holds, when its holder gives up renewing, how often it tries; in seconds.

    Between giving up and expiry lies the time in which the old leader has stopped and no new one can have
    started.
    """

    duration: float = 15.0
    give_up: float = 10.0
    every: float = 2.0


@dataclass(frozen=True)
class LeaseObservation:
    """A rival's lease as we first saw it in this version."""

    version: str
    at: float


def may_acquire(lease: Lease, me: str, sighting: LeaseObservation, now: float) -> bool:
    """Is the lease ours, free, or unchanged for longer than its holder promised to renew it."""
    holder = lease.spec.holder_identity
    if not holder or holder == me:
        return True
    return now - sighting.at >= (lease.spec.lease_duration_seconds or 0)


class Election:
    """Takes part in one election under one identity, which must differ between processes."""

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
        self._me = identity
        self._timing = timing or LeaseTiming()
        self._sighting = LeaseObservation("", 0.0)
        self._gauge = LEADING.labels(str(lease))
        self._renewed: float | None = None
        if health:
            health.add_liveness_check("lease", self.check)

    @property
    def leading(self) -> bool:
        """We hold the lease, and it has not run out."""
        return self._renewed is not None and self._age() < self._timing.duration

    def check(self) -> str | None:
        """A liveness check: a leader whose lease ran out long ago hangs somewhere."""
        overdue = self._renewed is not None and self._age() > 2 * self._timing.duration
        return f"still at work {self._age():.0f} s after the last renewal" if overdue else None

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `work` while holding it; `LeadershipLost` if it cannot be kept."""
        await self._acquire()
        log.info("leading", lease=self._key, identity=self._me)
        self._gauge.set(1)
        try:
            await self._lead(work)
        finally:
            self._gauge.set(0)
            held = self.leading
            self._renewed = None
            if held:
                await self._release()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        lost: LeadershipLost | None = None
        try:
            async with asyncio.TaskGroup() as family:
                keeper = family.create_task(self._keep())
                await work()
                keeper.cancel()
        except* LeadershipLost as group:
            lost = LeadershipLost(str(group.exceptions[0]))
        if lost:
            raise lost

    async def _acquire(self) -> None:
        while not await self._attempt(self._client.deadline):
            await self._clock.sleep(self._timing.every * self._rng.uniform(1.0, 1.5))

    async def _keep(self) -> None:
        while True:
            await self._clock.sleep(self._timing.every)
            left = self._timing.give_up - self._age()
            if left <= 0:
                raise LeadershipLost(f"no renewal of {self._key} for {self._age():.0f} s")
            if not await self._attempt(left) and self._sighting.version:
                log.info("renewal failed", lease=self._key, age=round(self._age(), 1))

    def _age(self) -> float:
        return self._clock.monotonic() - self._renewed if self._renewed is not None else 0.0

    async def _attempt(self, deadline: float) -> bool:
        """Take or renew the lease if that is our right; False if not, or if the server did not say yes."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(deadline):
                taken = await self._take()
        except LeadershipLost:
            raise
        except Conflict:
            return False
        except (KubeError, TimeoutError) as error:
            log.info("no answer about the lease", lease=self._key, error=error)
            return False
        if taken:
            self._renewed = began  # from before the request: the server's clock of it can only be later
        return taken

    async def _take(self) -> bool:
        lease = await self._client.find(LEASES, self._key)
        if lease is None:
            await self._client.create(LEASES, LEASES.manifest(self._key, spec=self._spec(None)))
            return True
        now = self._clock.monotonic()
        if lease.metadata.resource_version != self._sighting.version:
            self._sighting = LeaseObservation(lease.metadata.resource_version, now)
        if not may_acquire(lease, self._me, self._sighting, now):
            if self._renewed is not None:
                raise LeadershipLost(f"{self._key} is held by {lease.spec.holder_identity}")
            return False
        await self._write(lease, self._spec(lease))
        return True

    async def _release(self) -> None:
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._timing.every):
                lease = await self._client.get(LEASES, self._key)
                if lease.spec.holder_identity == self._me:
                    await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _write(self, lease: Lease, spec: dict[str, object]) -> None:
        # The version inside the patch makes it conditional: whoever was faster wins.
        seen = {"resourceVersion": lease.metadata.resource_version}
        await self._client.patch(LEASES, self._key, {"metadata": seen, "spec": spec})

    def _spec(self, lease: Lease | None) -> dict[str, object]:
        now = format_micro_timestamp(self._clock.now())
        spec: dict[str, object] = {
            "holderIdentity": self._me,
            "leaseDurationSeconds": round(self._timing.duration),
            "renewTime": now,
        }
        if lease is None or lease.spec.holder_identity != self._me:
            turns = (lease.spec.lease_transitions or 0) + 1 if lease else 0
            spec |= {"acquireTime": now, "leaseTransitions": turns}
        return spec
