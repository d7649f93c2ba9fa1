# SPDX-License-Identifier: Apache-2.0
"""Reads one cluster through a mirror and builds snapshots of it. A snapshot costs no request to Slurm.

The mirror reads the details of every live job once, again when the job starts, and when it ends. An array is read
once for all of its tasks. A source that is older than its limit in `STALE_SECONDS` counts as down.
"""

import asyncio
from collections.abc import Iterator

from msgspec import structs

from slinky.exporter.gpu_time import GpuTime
from slinky.exporter.job_history import JobHistory
from slinky.exporter.node_history import NodeHistory
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.exporter.periodic_read import PeriodicRead
from slinky.exporter.snapshot import ClusterSnapshot, MetricSource
from slinky.insight.group_limits import GroupLimits, group_limits
from slinky.observe import Clock
from slinky.slurm import (
    Change,
    JobRecord,
    Mirror,
    ObjectKind,
    ObservedTable,
    PollingIntervals,
    SlurmClient,
)

#: A source that slurmctld has not confirmed for this many seconds counts as down. A cluster that does not change
#: confirms its nodes rarely; slurmctld's counters confirm them in between.
STALE_SECONDS = dict.fromkeys(MetricSource, 120.0) | {
    MetricSource.NODES: 600.0,
    MetricSource.RESERVATIONS: 240.0,
    MetricSource.LIMITS: 900.0,
}
#: Seconds between two reads of what the mirror does not follow.
LICENSES_SECONDS = SHARES_SECONDS = 60.0
LIMITS_SECONDS = 300.0
#: Seconds between two samples of the use of GPUs.
GPU_SECONDS = 15.0
#: Metrics are scraped every half minute or so: the exporter needs no copy that is fresher than a few seconds.
INTERVALS = PollingIntervals(statistics=4.0, nodes=10.0, partitions=60.0)


class ClusterReader:
    """Follows one cluster."""

    def __init__(
        self,
        client: SlurmClient,
        clock: Clock,
        *,
        jobs_max: int,
        cluster: str = "",
        observed: ObservedMetrics | None = None,
        intervals: PollingIntervals = INTERVALS,
        gpu_seconds: float = GPU_SECONDS,
    ) -> None:
        """`gpu_seconds` are the seconds between two samples of the use of GPUs."""
        self._client, self._clock, self._cluster, self._jobs_max = client, clock, cluster, jobs_max
        self.mirror = Mirror(client, exact_resources=False, intervals=intervals)
        self.observed = observed or ObservedMetrics()
        self._gpu_seconds = gpu_seconds
        self.gpu_time = GpuTime(self.observed.series_max)
        self._job_history, self._node_history = JobHistory(self.observed), NodeHistory(self.observed)
        self._tracked: set[str] = set()
        self._licenses = PeriodicRead("licenses", client.licenses, LICENSES_SECONDS, clock)
        self._shares = PeriodicRead("shares", client.shares, SHARES_SECONDS, clock)
        self._limits = PeriodicRead("limits", self._read_limits, LIMITS_SECONDS, clock)
        self.mirror.listen(self._handle_change)

    @property
    def cluster(self) -> str:
        """The name of the cluster; empty until slurmctld has told it."""
        return self._cluster or self._client.session.server.cluster

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.mirror.run())
            for read in (self._licenses, self._shares, self._limits):
                tasks.create_task(read.run())
            tasks.create_task(self._count_gpu_time())

    async def _read_limits(self) -> GroupLimits:
        accounting = self._client.accounting
        associations = await accounting.associations(cluster=self.cluster or None)
        return group_limits(await accounting.qos(), associations, self.cluster)

    async def _count_gpu_time(self) -> None:
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(self._gpu_seconds)
            self.gpu_time.add(self.snapshot(), self._clock.monotonic() - before)

    def _handle_change(self, change: Change) -> None:
        before, after, now = change.before, change.after, self._clock.now().timestamp()
        if change.kind is ObjectKind.NODE:
            self._node_history.observe(before, after, now)
        if change.kind is not ObjectKind.JOB:
            return
        self._job_history.observe(before, after, now)
        job = change.key.partition("_")[0]
        if after is None or after.over:
            self._forget(job, after)
        elif job not in self._tracked and len(self._tracked) < self._jobs_max:
            self._tracked.add(job)
            self.mirror.track(job)

    def _forget(self, job: str, record: JobRecord | None) -> None:
        """Stop tracking a job once its end has been read; an array only when it is gone."""
        ended = record is None or record.lost or (record.detail is not None and record.detail.state.ended)
        if ended and job in self._tracked:
            self._tracked.discard(job)
            self.mirror.forget(job)

    # --- snapshots

    def snapshot(self) -> ClusterSnapshot:
        """What is known now; sources that are down are empty."""
        mirror, ages = self.mirror, self._ages()
        up = frozenset(source for source, age in ages.items() if age <= STALE_SECONDS[source] and not mirror.fault)
        return ClusterSnapshot(
            cluster=self.cluster,
            now=self._clock.now().timestamp(),
            ages=ages,
            up=up,
            jobs=tuple(merge_arrays(mirror.jobs)) if MetricSource.JOBS in up else (),
            hosts=tuple(mirror.nodes.values()) if MetricSource.NODES in up else (),
            reservations=tuple(mirror.reservations.values()) if MetricSource.RESERVATIONS in up else (),
            licenses=(self._licenses.value or ()) if MetricSource.LICENSES in up else (),
            diag=mirror.diag if MetricSource.STATISTICS in up else None,
            shares=(self._shares.value or ()) if MetricSource.SHARES in up else (),
            limits=self._limits.value if MetricSource.LIMITS in up else None,
        )

    def _ages(self) -> dict[MetricSource, float]:
        mirror = self.mirror
        return {
            MetricSource.JOBS: mirror.jobs.age,
            MetricSource.NODES: mirror.nodes.age,
            MetricSource.RESERVATIONS: mirror.reservations.age,
            MetricSource.STATISTICS: mirror.diag_age,
            MetricSource.LICENSES: self._licenses.age,
            MetricSource.SHARES: self._shares.age,
            MetricSource.LIMITS: self._limits.age,
        }


def merge_arrays(jobs: ObservedTable[JobRecord]) -> Iterator[JobRecord]:
    """Every job once: tasks of an array have the details of the array, and the array itself does not count."""
    arrays = {key.partition("_")[0] for key in jobs if "_" in key}
    for key, record in jobs.items():
        array, _, task = key.partition("_")
        if task and record.detail is None:
            parent = jobs.get(array)
            yield structs.replace(record, detail=parent.detail if parent else None)
        elif record.detail is None and record.over:
            continue  # it ended before the exporter started
        elif task or key not in arrays:
            yield record
