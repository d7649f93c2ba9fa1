# SPDX-License-Identifier: Apache-2.0
"""One client and one mirror for each Slurm cluster, run beside the controllers.

A cluster is connected with an address and a key. A new address creates a new client; a new key is used for the next
token. Clusters are independent of each other. `snapshot` answers at once with what is known, however old that is.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from slinky.kube.types import Key
from slinky.observe import Clock, Log, SystemClock
from slinky.operator.metrics import SLURM_AGE, SLURM_CALLS, SLURM_ERRORS, SLURM_UP, failure_kind
from slinky.operator.slurm.job_deadlines import JobDeadlines
from slinky.operator.slurm.pending_jobs import PENDING, PendingJobs, PendingQueue
from slinky.operator.slurm.snapshot import FRESH, SlurmSnapshot, reserved_hosts
from slinky.slurm import (
    Change,
    MintedToken,
    Mirror,
    ObjectKind,
    RequestRecord,
    SlurmClient,
    SlurmError,
    UntrustedServer,
)

log = Log("slinky.operator.slurm.clusters")

#: Seconds that a decision waits for an up-to-date answer from Slurm.
REFRESH_TIMEOUT = 5.0

Listener = Callable[[Key, Change], None]


class TlsServer(NamedTuple):
    """How the slurmrestd of a cluster identifies itself: the name in its certificate, and the trusted authorities."""

    name: str
    authorities: str

    def context(self) -> ssl.SSLContext:
        """Return a context that trusts these authorities only."""
        return ssl.create_default_context(cadata=self.authorities)


@dataclass
class _ClusterConnection:
    url: str
    key: bytes
    server: TlsServer | None
    tls: ssl.SSLContext | None
    client: SlurmClient
    mirror: Mirror
    deadlines: JobDeadlines
    pending: PendingJobs
    clock: Clock
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stop_listening: Callable[[], None] = field(default=lambda: None)
    reachable_since: float = 0.0
    changed_at: float = 0.0
    removed_at: dict[str, float] = field(default_factory=dict)
    waiting_node_sets: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.reachable_since = self.changed_at = self.clock.monotonic()

    def leads_to(self, url: str, server: TlsServer | None) -> bool:
        """Return whether the connection is to this address, and to a server of this name."""
        return self.url == url and (self.server and self.server.name) == (server and server.name)

    def trust(self, server: TlsServer | None) -> None:
        """Trust these authorities and no other; the next request opens a connection that they verify."""
        if server is not None and server != self.server:
            self.server, self.tls = server, server.context()

    def observe(self, change: Change) -> None:
        """Record the last change, since when the cluster is reachable, and when hosts disappeared from Slurm."""
        self.changed_at = self.clock.monotonic()
        if change.kind is ObjectKind.MIRROR:
            self.reachable_since = self.clock.monotonic()
            self.removed_at.clear()
        elif change.kind is ObjectKind.NODE and change.after is None:
            self.removed_at[change.key] = self.clock.monotonic()
        elif change.kind is ObjectKind.NODE:
            self.removed_at.pop(change.key, None)


class Clusters:
    """The Slurm clusters that the operator is connected to, by the key of their Controller."""

    def __init__(self, clock: Clock | None = None, *, user: str = "slurm") -> None:
        """`user` is the Slurm user of the tokens."""
        self._clock, self._user = clock or SystemClock(), user
        self._connections: dict[Key, _ClusterConnection] = {}
        self._listeners: list[Listener] = []
        self._task_group: asyncio.TaskGroup | None = None

    def listen(self, listener: Listener) -> None:
        """Call `listener` for every change in every cluster."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Run the tasks of all connections until cancelled."""
        async with asyncio.TaskGroup() as self._task_group:
            try:
                await asyncio.Event().wait()
            finally:
                for key in list(self._connections):
                    await self.disconnect(key)

    async def connect(self, key: Key, url: str, secret: bytes, server: TlsServer | None = None) -> None:
        """Connect to a cluster; an existing connection to the same address gets the new key and authorities."""
        connection = self._connections.get(key)
        if connection is not None and connection.leads_to(url, server):
            connection.key = secret
            connection.trust(server)
            return
        await self.disconnect(key)
        await self._open(key, url, secret, server)

    async def disconnect(self, key: Key) -> None:
        """Close the connection to a cluster, if there is one."""
        connection = self._connections.pop(key, None)
        if connection is None:
            return
        connection.stop_listening()
        for task in connection.tasks:
            task.cancel()
        try:
            await asyncio.gather(*connection.tasks, return_exceptions=True)
        finally:
            await connection.client.close()
        for gauge in (SLURM_UP, SLURM_AGE):
            with contextlib.suppress(KeyError):
                gauge.remove(*key)

    def client(self, key: Key) -> SlurmClient | None:
        """Return the client of a cluster, if it is connected."""
        connection = self._connections.get(key)
        return connection.client if connection else None

    def request_refresh(self, key: Key) -> None:
        """Have the hosts of a cluster read soon, because this operator has changed them."""
        if connection := self._connections.get(key):
            connection.mirror.request_refresh(nodes=True)

    async def refresh(self, key: Key) -> bool:
        """Read the cluster now; return whether Slurm has answered in time."""
        connection = self._connections.get(key)
        if connection is None or connection.mirror.fault is not None:
            return False
        try:
            await connection.mirror.refresh(deadline=REFRESH_TIMEOUT)
        except (SlurmError, TimeoutError):
            return False
        return True

    def set_waiting(self, key: Key, node_set: Key, waiting: bool) -> None:
        """Tell whether a NodeSet waits for jobs to end on its hosts; meanwhile the mirror follows every job."""
        if connection := self._connections.get(key):
            (connection.waiting_node_sets.add if waiting else connection.waiting_node_sets.discard)(node_set)
            connection.mirror.read_nodes_eagerly = bool(connection.waiting_node_sets)

    def follow_pending_jobs(self, key: Key, follow: bool, *, holders: bool = False) -> None:
        """Tell whether the pending jobs of a cluster are needed; without that, the mirror reads no job.

        `holders` tells whether the hosts of running jobs are needed too.
        """
        if connection := self._connections.get(key):
            connection.pending.follow(follow, holders=holders)

    def queue(self, key: Key) -> PendingQueue | None:
        """Return the pending jobs and the partitions of a cluster; None while they are not known."""
        connection = self._connections.get(key)
        if connection is None or connection.mirror.fault is not None:
            return None
        return connection.pending.snapshot(self._clock.now().timestamp())

    def changed_at(self, key: Key) -> float:
        """Return when something in the cluster was last seen to change, on the monotonic clock."""
        connection = self._connections.get(key)
        return connection.changed_at if connection else 0.0

    def jobs_follow_hosts(self, key: Key) -> bool:
        """Return whether jobs were read after the last change of a host."""
        connection = self._connections.get(key)
        return connection is not None and connection.mirror.jobs_follow_nodes

    def expect_removal(self, key: Key, hosts: tuple[str, ...]) -> None:
        """Announce that this operator removes hosts, so that their absence does not look like lost data."""
        if connection := self._connections.get(key):
            connection.mirror.nodes.expect_removal(hosts)

    def snapshot(self, key: Key, within: float = FRESH) -> SlurmSnapshot:
        """Return what is known of a cluster now."""
        connection = self._connections.get(key)
        if connection is None:
            return SlurmSnapshot()
        nodes, fault, now = connection.mirror.nodes, connection.mirror.fault, self._clock.monotonic()
        return SlurmSnapshot(
            connected=True,
            trusted=nodes.is_fresh(within) and fault is None,
            hosts=dict(nodes),
            reservations=dict(connection.mirror.reservations),
            reserved_from=reserved_hosts(connection.mirror.reservations.values(), self._clock.now().timestamp()),
            error=str(fault) if fault else "",
            untrusted=isinstance(fault, UntrustedServer),
            doubt=str(nodes.unconfirmed_loss) if nodes.unconfirmed_loss else "",
            deadlines=connection.deadlines.by_host,
            reachable_seconds=now - connection.reachable_since,
            removed_seconds={host: now - when for host, when in connection.removed_at.items()},
        )

    async def _open(self, key: Key, url: str, secret: bytes, server: TlsServer | None) -> None:
        log.info("connecting to slurm", cluster=str(key), url=url)

        def current_key() -> bytes:
            connection = self._connections.get(key)
            return connection.key if connection else secret

        def current_tls() -> ssl.SSLContext | None:
            return connection.tls

        tls, name = (server.context(), server.name) if server else (None, None)
        tokens, observe = MintedToken(current_key, self._user), partial(_count_request, key)
        client = SlurmClient(url, tokens, tls=current_tls, tls_name=name, observe=observe)
        mirror = Mirror(client, all_jobs=False, exact_resources=False)
        deadlines = JobDeadlines(
            client, mirror.nodes, lambda: self._notify(key, Change(ObjectKind.JOB, "", None, None))
        )
        pending = PendingJobs(mirror, lambda: self._notify(key, Change(ObjectKind.JOB, PENDING, None, None)))
        connection = _ClusterConnection(url, secret, server, tls, client, mirror, deadlines, pending, self._clock)
        self._connections[key] = connection
        connection.stop_listening = mirror.listen(lambda change: self._on_change(key, change))
        if self._task_group is not None:
            connection.tasks = [
                self._task_group.create_task(mirror.run(), name=f"mirror-{key}"),
                self._task_group.create_task(deadlines.run(), name=f"deadlines-{key}"),
                self._task_group.create_task(pending.run(), name=f"pending-{key}"),
            ]
        SLURM_UP.labels(*key).set_function(lambda: 1.0 if mirror.nodes.synced and mirror.fault is None else 0.0)
        SLURM_AGE.labels(*key).set_function(lambda: mirror.nodes.age)

    def _on_change(self, key: Key, change: Change) -> None:
        connection = self._connections.get(key)
        if connection is not None:
            connection.observe(change)
            connection.pending.observe(change)
        if change.kind not in {ObjectKind.NODE, ObjectKind.MIRROR, ObjectKind.RESERVATION}:
            return
        if connection is not None and change.kind is not ObjectKind.RESERVATION:
            connection.deadlines.request_read()
        self._notify(key, change)

    def _notify(self, key: Key, change: Change) -> None:
        for listener in self._listeners:
            listener(key, change)


def _count_request(key: Key, exchange: RequestRecord) -> None:
    SLURM_CALLS.labels(*key, exchange.method, exchange.status).observe(exchange.seconds)
    if kind := failure_kind(exchange.status):
        SLURM_ERRORS.labels(*key, kind).inc()
