# SPDX-License-Identifier: Apache-2.0
"""Publishes the data of the pages from a mirror that it shares with the exporter.

The mirror brings jobs, nodes, partitions and reservations. Licences, accounting and the configuration are read from
time to time. Data is published after a change, but not before the work for the last data is a small share of the time.
Forecasts cost the most, so they are computed in a thread, at a pace of their own.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slinky.insight.forecast import StartRange, forecast
from slinky.insight.listed_jobs import listed_jobs
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.observe import Clock, Log
from slinky.slurm import Change, Mirror, ObjectKind, SlurmClient, SlurmError
from slinky.web.page_data import KnownNodeSets, PageData

log = Log("slinky.web.cluster_feed")

#: Seconds between two publications, and between two without a change.
SHORTEST_SECONDS, LONGEST_SECONDS = 3.0, 30.0
#: A publication, with everything that listeners do with it, takes at most this share of the time; so does a forecast.
SHARE = 0.05
#: Seconds between two reads of what the mirror does not follow.
EXTRAS_SECONDS = 120.0
#: Seconds of accounting history from which a forecast learns how much of their limits jobs use.
HISTORY_SECONDS = 86400
#: Tasks of arrays whose details are read, which Slurm otherwise shows by their state only.
TASKS_MAX = 5000
#: Words for what could not be read.
_WORDS = {"licenses": "licences", "conf": "configuration of slurmctld", "associations": "limits of accounts",
          "qos": "limits of QOS", "shares": "fair shares", "history": "earlier jobs", "users": "operators"}  # fmt: skip

Publish = Callable[[PageData], Awaitable[None]]


class ClusterFeed:
    """The data of one cluster; `data` is None until the mirror has read the cluster."""

    def __init__(
        self, client: SlurmClient, mirror: Mirror, clock: Clock, node_sets: Callable[[], KnownNodeSets] | None = None
    ) -> None:
        self._client, self._mirror, self._clock = client, mirror, clock
        self._node_sets = node_sets
        self.data: PageData | None = None
        self._listeners: list[Publish] = []
        self._extras: dict[str, Any] = {}
        self._unknown: tuple[str, ...] = ()
        self._ranges: Mapping[int, StartRange] = {}
        self._changed = asyncio.Event()
        self._tasks: set[str] = set()

    @property
    def fault(self) -> str:
        """Why Slurm cannot be read; empty if it can."""
        return plain(str(self._mirror.fault)) if self._mirror.fault else ""

    def on_publish(self, listener: Publish) -> None:
        """Call `listener` with all data that is published from now on."""
        self._listeners.append(listener)

    def note_change(self) -> None:
        """Publish soon, because something besides the mirror has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        stop = self._mirror.listen(self._handle_change)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read_extras())
                tasks.create_task(self._publish_changes())
                tasks.create_task(self._compute_forecasts())
        finally:
            stop()

    def _handle_change(self, change: Change) -> None:
        self._changed.set()
        if change.kind is ObjectKind.JOB and "_" in change.key:
            self._follow_task(change)

    def _follow_task(self, change: Change) -> None:
        """Read the details of a task while it runs: the mirror's listener for metrics reads its array only."""
        key, after = change.key, change.after
        if after is None or after.over:
            if key in self._tasks:
                self._tasks.discard(key)
                self._mirror.forget(key)
        elif after.state.holds_nodes and key not in self._tasks and len(self._tasks) < TASKS_MAX:
            self._tasks.add(key)
            self._mirror.track(key)

    # --- publications

    async def _publish_changes(self) -> None:
        await self._wait_until_synced()
        while True:
            self._changed.clear()
            begun = time.thread_time()
            await self.publish()
            spent = time.thread_time() - begun
            await self._clock.sleep(max(SHORTEST_SECONDS, spent / SHARE))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LONGEST_SECONDS)

    async def publish(self) -> None:
        """Publish what is known now."""
        await self.offer(self._build(self.data.serial + 1 if self.data else 1))

    async def offer(self, data: PageData) -> None:
        """Make this data the current one, and pass it to the listeners."""
        self.data = data
        for listener in self._listeners:
            await listener(data)

    async def _wait_until_synced(self) -> None:
        """Wait for the first jobs and nodes; without them the page says that Slurm has not been read yet."""
        while not (self._mirror.jobs.synced and self._mirror.nodes.synced):
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 1.0)

    def _build(self, serial: int) -> PageData:
        snapshot = self._snapshot()
        mirror, server = self._mirror, self._client.session.server
        extras = self._extras
        return PageData(
            snapshot=snapshot,
            whole=snapshot,
            ranges=self._ranges,
            users=extras.get("users", ()),
            node_sets=self._node_sets() if self._node_sets else None,
            cluster=server.cluster,
            release=server.release,
            age=mirror.age,
            fault=self.fault,
            serial=serial,
        )

    def _snapshot(self) -> QueueSnapshot:
        mirror = self._mirror
        fields = {name: value for name, value in self._extras.items() if name != "users"}
        return QueueSnapshot(
            now=self._clock.now().timestamp(),
            jobs=listed_jobs(mirror.jobs),
            hosts=tuple(mirror.nodes.values()),
            partitions=tuple(mirror.partitions.values()),
            reservations=tuple(mirror.reservations.values()),
            diag=mirror.diag,
            unknown=self._unknown,
            **fields,
        )

    # --- forecasts

    async def _compute_forecasts(self) -> None:
        await self._wait_until_synced()
        while True:
            snapshot = self._snapshot()
            self._ranges, spent = await asyncio.to_thread(_timed_forecast, snapshot)
            self._changed.set()
            await self._clock.sleep(max(2 * SHORTEST_SECONDS, spent / SHARE))

    # --- what the mirror does not follow

    async def _read_extras(self) -> None:
        while True:
            await self.read_extras()
            self._changed.set()
            await self._clock.sleep(EXTRAS_SECONDS)

    async def read_extras(self) -> None:
        """Read what the mirror does not follow. What cannot be read keeps its last value, and is named."""
        client, accounting = self._client, self._client.accounting
        begin = int(self._clock.now().timestamp()) - HISTORY_SECONDS
        reads: dict[str, Callable[[], Awaitable[Any]]] = {
            "licenses": client.licenses,
            "conf": client.conf,
            "qos": accounting.qos,
            "associations": accounting.associations,
            "shares": client.shares,
            "users": accounting.users,
            "history": lambda: accounting.jobs(start_time=begin),
        }
        unknown = []
        for name, read in reads.items():
            try:
                result = await read()
            except SlurmError as error:
                log.debug("a source cannot be read", source=name, error=error)
                unknown.append(_WORDS[name])
            else:
                self._extras[name] = result.settings if name == "conf" else result
        self._unknown = tuple(unknown)


def _timed_forecast(snapshot: QueueSnapshot) -> tuple[Mapping[int, StartRange], float]:
    """The forecast and the CPU time of this thread that it took."""
    begun = time.thread_time()
    return forecast(snapshot), time.thread_time() - begun
