# SPDX-License-Identifier: Apache-2.0
"""Reads one cluster through a mirror and builds snapshots of it. A snapshot costs no request to Slurm.

The mirror reads the details of every live job once, again when the job starts, and when it ends. An array is read
once for all of its
tasks. A source that is older than `STALE_SECONDS` counts as down.
"""

import asyncio
from collections.abc import Collection, Iterator

from msgspec import structs

from slinky.exporter.job_history import JobHistory
from slinky.exporter.snapshot import ClusterSnapshot, MetricSource
from slinky.observe import Clock, Log
from slinky.slurm import Change, JobRecord, License, Mirror, ObjectKind, ObservedTable, SlurmClient, SlurmError

log = Log("slinky.exporter.cluster_reader")

#: A source that slurmctld has not confirmed for this many seconds counts as down.
STALE_SECONDS = 120.0
#: Seconds between two reads of licences.
LICENSES_SECONDS = 60.0
#: A cluster that does not change confirms its long lists rarely; slurmctld's counters confirm them in between.
NODE_STALE_SECONDS = 600.0


class ClusterReader:
    """Follows one cluster."""

    def __init__(self, client: SlurmClient, clock: Clock, *, cluster: str = "", jobs_max: int) -> None:
        self._client, self._clock, self._cluster, self._jobs_max = client, clock, cluster, jobs_max
        self.mirror = Mirror(client, exact_resources=False)
        self.history = JobHistory()
        self._tracked: set[str] = set()
        self._licenses: Collection[License] = ()
        self._licenses_read_at = float("-inf")
        self.mirror.listen(self._handle_change)

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.mirror.run())
            tasks.create_task(self._read_licenses())

    async def _read_licenses(self) -> None:
        while True:
            try:
                self._licenses = await self._client.licenses()
                self._licenses_read_at = self._clock.monotonic()
            except SlurmError as error:
                log.debug("licences cannot be read", error=error)
            await self._clock.sleep(LICENSES_SECONDS)

    def _handle_change(self, change: Change) -> None:
        if change.kind is not ObjectKind.JOB:
            return
        before, after = change.before, change.after
        self.history.observe(before, after, self._clock.now().timestamp())
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
        up = frozenset(source for source, age in ages.items() if age <= _limit(source)) if not mirror.fault else ()
        return ClusterSnapshot(
            cluster=self._cluster or self._client.session.server.cluster,
            now=self._clock.now().timestamp(),
            ages=ages,
            up=frozenset(up),
            jobs=tuple(merge_arrays(mirror.jobs)) if MetricSource.JOBS in up else (),
            hosts=tuple(mirror.nodes.values()) if MetricSource.NODES in up else (),
            reservations=tuple(mirror.reservations.values()) if MetricSource.RESERVATIONS in up else (),
            licenses=self._licenses if MetricSource.LICENSES in up else (),
            diag=mirror.diag if MetricSource.STATISTICS in up else None,
        )

    def _ages(self) -> dict[MetricSource, float]:
        mirror = self.mirror
        return {
            MetricSource.JOBS: mirror.jobs.age,
            MetricSource.NODES: mirror.nodes.age,
            MetricSource.RESERVATIONS: mirror.reservations.age,
            MetricSource.STATISTICS: mirror.diag_age,
            MetricSource.LICENSES: self._clock.monotonic() - self._licenses_read_at,
        }


def _limit(source: MetricSource) -> float:
    return NODE_STALE_SECONDS if source is MetricSource.NODES else STALE_SECONDS


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
