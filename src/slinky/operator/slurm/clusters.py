# SPDX-License-Identifier: Apache-2.0
"""One client and one mirror for each Slurm cluster, kept alive beside the controllers.

A cluster is wanted with an address and a key; a changed address gives it a new client, a changed key is in the next
token. Losing one never disturbs another. Whoever asks for the sight of a cluster gets it at once, however old.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from slinky.kube.types import Key
from slinky.observe import Log
from slinky.operator.metrics import SLURM_AGE, SLURM_CALLS, SLURM_ERRORS, SLURM_UP, kind_of_failure
from slinky.operator.slurm.job_deadlines import JobDeadlines
from slinky.operator.slurm.snapshot import FRESH, SlurmSnapshot
from slinky.slurm import Change, MintedToken, Mirror, RequestRecord, SlurmClient, SlurmError
from slinky.slurm import ObjectKind as What

log = Log("slinky.operator.slurm.clusters")

#: As whom the operator speaks to Slurm.
USER = "slurm"

#: So long somebody who has to choose now waits for Slurm's word.
LOOK = 5.0

Listener = Callable[[Key, Change], None]


@dataclass
class _ClusterConnection:
    url: str
    key: bytes
    client: SlurmClient
    mirror: Mirror
    deadlines: JobDeadlines
    lives: list[asyncio.Task[None]] = field(default_factory=list)
    stop: Callable[[], None] = field(default=lambda: None)
    sighted: float = field(default_factory=time.monotonic)
    lost: dict[str, float] = field(default_factory=dict)
    waiting: set[Key] = field(default_factory=set)

    def note(self, change: Change) -> None:
        """Remember since when what is said can be relied upon."""
        if change.kind is What.MIRROR:
            self.sighted = time.monotonic()
            self.lost.clear()
        elif change.kind is What.NODE and change.after is None:
            self.lost[change.key] = time.monotonic()
        elif change.kind is What.NODE:
            self.lost.pop(change.key, None)


class Clusters:
    """The Slurm clusters that the operator talks to."""

    def __init__(self) -> None:
        self._clusters: dict[Key, _ClusterConnection] = {}
        self._listeners: list[Listener] = []
        self._family: asyncio.TaskGroup | None = None

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every change in every cluster."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Hold the clusters' tasks; end them all when cancelled."""
        async with asyncio.TaskGroup() as self._family:
            try:
                await asyncio.Event().wait()
            finally:
                for key in list(self._clusters):
                    await self.drop(key)

    async def want(self, key: Key, url: str, secret: bytes) -> None:
        """Be connected to this cluster."""
        found = self._clusters.get(key)
        if found is not None and found.url == url:
            found.key = secret
            return
        await self.drop(key)
        await self._connect(key, url, secret)

    async def drop(self, key: Key) -> None:
        """Be connected to it no more."""
        found = self._clusters.pop(key, None)
        if found is None:
            return
        found.stop()
        for life in found.lives:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life
        await found.client.close()
        for gauge in (SLURM_UP, SLURM_AGE):
            with contextlib.suppress(KeyError):
                gauge.remove(*key)

    def client(self, key: Key) -> SlurmClient | None:
        """The client of a cluster, if it has one."""
        found = self._clusters.get(key)
        return found.client if found else None

    def stir(self, key: Key) -> None:
        """We have changed hosts of this cluster: look soon."""
        if found := self._clusters.get(key):
            found.mirror.request_refresh(nodes=True)

    async def look(self, key: Key) -> bool:
        """See what is true now; whether Slurm has answered."""
        found = self._clusters.get(key)
        if found is None or found.mirror.fault is not None:
            return False
        try:
            await found.mirror.refresh(deadline=LOOK)
        except (SlurmError, TimeoutError):
            return False
        return True

    def attend(self, key: Key, whose: Key, waiting: bool) -> None:
        """Whether a NodeSet waits for work to leave hosts of this cluster: then every move of jobs is news."""
        if found := self._clusters.get(key):
            (found.waiting.add if waiting else found.waiting.discard)(whose)
            found.mirror.read_nodes_eagerly = bool(found.waiting)

    def expect_removal(self, key: Key, hosts: tuple[str, ...]) -> None:
        """We are removing these hosts; their absence will be no surprise."""
        if found := self._clusters.get(key):
            found.mirror.nodes.expect_removal(hosts)

    def sight(self, key: Key, within: float = FRESH) -> SlurmSnapshot:
        """What is known of a cluster now."""
        found = self._clusters.get(key)
        if found is None:
            return SlurmSnapshot()
        nodes, fault, now = found.mirror.nodes, found.mirror.fault, time.monotonic()
        return SlurmSnapshot(
            connected=True,
            trusted=nodes.is_fresh(within) and fault is None,
            hosts=dict(nodes),
            reservations=dict(found.mirror.reservations),
            fault=str(fault) if fault else "",
            doubt=str(nodes.unconfirmed_loss) if nodes.unconfirmed_loss else "",
            deadlines=found.deadlines.of_host,
            seconds=now - found.sighted,
            lost={host: now - when for host, when in found.lost.items()},
        )

    async def _connect(self, key: Key, url: str, secret: bytes) -> None:
        log.info("connecting to slurm", cluster=str(key), url=url)

        def current() -> bytes:
            held = self._clusters.get(key)
            return held.key if held else secret

        client = SlurmClient(url, MintedToken(current, USER), observe=partial(_observed, key))
        mirror = Mirror(client, all_jobs=False)
        deadlines = JobDeadlines(client, mirror.nodes, lambda: self._tell(key, Change(What.JOB, "", None, None)))
        made = self._clusters[key] = _ClusterConnection(url, secret, client, mirror, deadlines)
        made.stop = mirror.listen(lambda change: self._told(key, change))
        if self._family is not None:
            made.lives = [
                self._family.create_task(mirror.run(), name=f"mirror-{key}"),
                self._family.create_task(deadlines.run(), name=f"deadlines-{key}"),
            ]
        SLURM_UP.labels(*key).set_function(lambda: 1.0 if mirror.nodes.synced and mirror.fault is None else 0.0)
        SLURM_AGE.labels(*key).set_function(lambda: mirror.nodes.age)

    def _told(self, key: Key, change: Change) -> None:
        if found := self._clusters.get(key):
            found.note(change)
        if change.kind in {What.NODE, What.MIRROR, What.RESERVATION}:
            if change.kind is not What.RESERVATION and (found := self._clusters.get(key)):
                found.deadlines.stir()
            self._tell(key, change)

    def _tell(self, key: Key, change: Change) -> None:
        for listener in self._listeners:
            listener(key, change)


def _observed(key: Key, exchange: RequestRecord) -> None:
    SLURM_CALLS.labels(*key, exchange.method, exchange.status).observe(exchange.seconds)
    if kind := kind_of_failure(exchange.status):
        SLURM_ERRORS.labels(*key, kind).inc()
