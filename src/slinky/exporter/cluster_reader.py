# SPDX-License-Identifier: Apache-2.0
"""Reads one cluster through a mirror and builds snapshots of it. A snapshot costs no request to Slurm.

The mirror reads the details of every live job once, again when the job starts, and when it ends. An array is read
once for all of its tasks. A source that is older than its limit in `STALE_SECONDS` counts as down. slurmctld's own
metrics are read without slurmrestd, so its statistics are known even while slurmrestd does not answer.
"""

import asyncio
from collections.abc import Iterator

from msgspec import structs

from slinky.exporter.compat.slurmctld import read_statistics
from slinky.exporter.forecast_accuracy import ForecastAccuracy, first_jobs
from slinky.exporter.gpu_time import GpuTime
from slinky.exporter.job_history import JobHistory
from slinky.exporter.node_history import NodeHistory
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.exporter.periodic_read import PeriodicRead
from slinky.exporter.snapshot import ClusterSnapshot, MetricSource
from slinky.insight.forecast import forecast
from slinky.insight.group_limits import GroupLimits, group_limits
from slinky.insight.listed_jobs import listed_jobs
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.observe import Clock
from slinky.slurm import (
    Change,
    Diag,
    JobRecord,
    Mirror,
    NativeMetrics,
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
    MetricSource.NATIVE: 45.0,
}
#: Seconds between two reads of what the mirror does not follow.
LICENSES_SECONDS = SHARES_SECONDS = 60.0
LIMITS_SECONDS = 300.0
NATIVE_SECONDS = 15.0
#: Seconds between two samples of the use of GPUs, and between two forecasts.
GPU_SECONDS, FORECAST_SECONDS = 15.0, 60.0
#: A forecast takes at most this share of the time.
FORECAST_SHARE = 0.02
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
        forecast_seconds: float = FORECAST_SECONDS,
        native: NativeMetrics | None = None,
        native_seconds: float = NATIVE_SECONDS,
    ) -> None:
        """`gpu_seconds` are the seconds between two samples of the use of GPUs, `forecast_seconds` between forecasts.

        `native` reads slurmctld's own metrics.
        """
        self._client, self._clock, self._cluster, self._jobs_max = client, clock, cluster, jobs_max
        self.mirror = Mirror(client, exact_resources=False, intervals=intervals)
        self.observed = observed or ObservedMetrics()
        self._gpu_seconds, self._forecast_seconds = gpu_seconds, forecast_seconds
        self.gpu_time = GpuTime(self.observed.series_max)
        self._job_history, self._node_history = JobHistory(self.observed), NodeHistory(self.observed)
        self._accuracy = ForecastAccuracy(self.observed)
        self._tracked: set[str] = set()
        self._licenses = PeriodicRead("licenses", client.licenses, LICENSES_SECONDS, clock)
        self._shares = PeriodicRead("shares", client.shares, SHARES_SECONDS, clock)
        self._limits = PeriodicRead("limits", self._read_limits, LIMITS_SECONDS, clock)
        self._native = PeriodicRead("native", native.read, native_seconds, clock) if native else None
        self.mirror.listen(self._handle_change)

    @property
    def cluster(self) -> str:
        """The name of the cluster; empty until slurmctld has told it."""
        return self._cluster or self._client.session.server.cluster

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.mirror.run())
            for read in (self._licenses, self._shares, self._limits, self._native):
                if read is not None:
                    tasks.create_task(read.run())
            tasks.create_task(self._count_gpu_time())
            tasks.create_task(self._forecast_starts())

    async def _read_limits(self) -> GroupLimits:
        accounting = self._client.accounting
        associations = await accounting.associations(cluster=self.cluster or None)
        return group_limits(await accounting.qos(), associations, self.cluster)

    async def _count_gpu_time(self) -> None:
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(self._gpu_seconds)
            self.gpu_time.add(self.snapshot(), self._clock.monotonic() - before)

    async def _forecast_starts(self) -> None:
        """Forecast the starts of pending jobs, in a thread because that takes up to a second."""
        while True:
            begun = self._clock.monotonic()
            queue = self._queue_snapshot()
            if queue.pending and self.mirror.fault is None:
                self._accuracy.remember(await asyncio.to_thread(forecast, first_jobs(queue)))
            spent = self._clock.monotonic() - begun
            await self._clock.sleep(max(self._forecast_seconds, spent / FORECAST_SHARE))

    def _queue_snapshot(self) -> QueueSnapshot:
        """What a forecast needs."""
        mirror = self.mirror
        return QueueSnapshot(
            now=self._clock.now().timestamp(),
            jobs=listed_jobs(mirror.jobs),
            hosts=tuple(mirror.nodes.values()),
            partitions=tuple(mirror.partitions.values()),
            reservations=tuple(mirror.reservations.values()),
            history=self._accuracy.history,
            diag=mirror.diag,
        )

    def _handle_change(self, change: Change) -> None:
        before, after, now = change.before, change.after, self._clock.now().timestamp()
        if change.kind is ObjectKind.NODE:
            self._node_history.observe(before, after, now)
        if change.kind is not ObjectKind.JOB:
            return
        self._job_history.observe(before, after, now)
        self._accuracy.observe(before, after, now)
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
        up = frozenset(source for source, age in ages.items() if self._is_up(source, age))
        return ClusterSnapshot(
            cluster=self.cluster,
            now=self._clock.now().timestamp(),
            ages=ages,
            up=up,
            jobs=tuple(merge_arrays(mirror.jobs)) if MetricSource.JOBS in up else (),
            hosts=tuple(mirror.nodes.values()) if MetricSource.NODES in up else (),
            reservations=tuple(mirror.reservations.values()) if MetricSource.RESERVATIONS in up else (),
            licenses=(self._licenses.value or ()) if MetricSource.LICENSES in up else (),
            diag=self._diag(up),
            shares=(self._shares.value or ()) if MetricSource.SHARES in up else (),
            limits=self._limits.value if MetricSource.LIMITS in up else None,
        )

    def _is_up(self, source: MetricSource, age: float) -> bool:
        return age <= STALE_SECONDS[source] and (source is MetricSource.NATIVE or not self.mirror.fault)

    def _diag(self, up: frozenset[MetricSource]) -> Diag | None:
        if MetricSource.STATISTICS in up:
            return self.mirror.diag
        if MetricSource.NATIVE in up and self._native and self._native.value:
            return read_statistics(self._native.value)
        return None

    def _ages(self) -> dict[MetricSource, float]:
        mirror = self.mirror
        native = {MetricSource.NATIVE: self._native.age} if self._native else {}
        return {
            **native,
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
