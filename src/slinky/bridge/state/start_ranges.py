# SPDX-License-Identifier: Apache-2.0
"""Expected starts of the bridge's pending jobs: the forecast that the command and the page show, computed here too.

A forecast needs every job of the cluster. The list of all jobs is read at most once a minute, only while a job of the
bridge is pending, and so rarely that reading and computing take a small share of the time: where slurmrestd needs half
a minute for its answer, every ten minutes. The computation runs in a thread, so that the event loop goes on. In a
cluster of more than `JOBS_MAX` jobs pods show the start that slurmctld plans.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from slinky.insight.forecast import StartRange, forecast
from slinky.insight.forecast.start_range import has_moved
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.observe import Clock, Log
from slinky.slurm import JobRecord, Mirror, SlurmClient, SlurmError
from slinky.slurm.model.accounting_jobs import AccountingJob

log = Log("slinky.bridge.state.start_ranges")

#: Jobs of a cluster up to which all of them are read. An answer has about 10 KB for each job, which the bridge holds in
#: memory until it has decoded it.
JOBS_MAX = 20_000
#: Seconds between two forecasts, and the share of the time that they may take, most of it to wait for the answer.
MIN_INTERVAL, SHARE = 60.0, 0.05
#: Seconds of history from which forecasts learn how much of their limits jobs use, and between two reads of it.
HISTORY_SECONDS, HISTORY_INTERVAL = 86400, 1800.0
#: Seconds after which a forecast that could not be renewed no longer counts; twice the interval if that is longer.
FRESH_SECONDS = 600.0


def next_interval(seconds: float) -> float:
    """Seconds until the next forecast after one that took so many seconds."""
    return max(MIN_INTERVAL, seconds / SHARE)


class StartRanges:
    """The last forecast; a callback is notified of jobs whose expected start is new or has moved."""

    def __init__(self, client: SlurmClient, mirror: Mirror, notify: Callable[[str], None], clock: Clock) -> None:
        self._client, self._mirror, self._notify, self._clock = client, mirror, notify, clock
        self._ranges: Mapping[int, StartRange] = {}
        self._computed_at = 0.0
        self._fresh_seconds = FRESH_SECONDS
        self._history: tuple[AccountingJob, ...] = ()
        self._history_at = 0.0

    def of(self, record: JobRecord) -> StartRange | None:
        """The expected start of a pending job; None if there is no recent forecast of it."""
        if self._now() - self._computed_at > self._fresh_seconds or record.detail is None:
            return None
        return self._ranges.get(record.detail.job_id)

    async def run(self) -> None:
        """Forecast until cancelled."""
        while True:
            begun = time.monotonic()
            try:
                await self.refresh()
            except SlurmError as error:
                log.debug("the queue cannot be read for a forecast", error=error)
            except Exception as error:
                # Pods are scheduled without a forecast too.
                log.error("the queue cannot be forecast", error=error)
            interval = next_interval(time.monotonic() - begun)
            self._fresh_seconds = max(FRESH_SECONDS, 2 * interval)
            await self._clock.sleep(interval)

    async def refresh(self) -> None:
        """Forecast once if it is needed and not too expensive. Raises `SlurmError`."""
        if not self._is_needed():
            return
        snapshot = await self._read()
        before, self._ranges = self._ranges, await asyncio.to_thread(forecast, snapshot)
        self._computed_at = self._now()
        for key, record in list(self._mirror.jobs.items()):
            if record.state.pending and record.detail is not None:
                job = record.detail.job_id
                if has_moved(before.get(job), self._ranges.get(job), self._computed_at):
                    self._notify(key)

    def _is_needed(self) -> bool:
        diag = self._mirror.diag
        if diag is None or diag.jobs_pending + diag.jobs_running > JOBS_MAX:
            return False
        return any(record.state.pending for record in self._mirror.jobs.values())

    async def _read(self) -> QueueSnapshot:
        mirror = self._mirror
        await self._read_history()
        jobs, licenses = await self._client.jobs(), await self._client.licenses()
        return QueueSnapshot(
            now=self._now(),
            jobs=jobs.items if jobs else (),
            hosts=tuple(mirror.nodes.values()),
            partitions=tuple(mirror.partitions.values()),
            reservations=tuple(mirror.reservations.values()),
            licenses=licenses,
            history=self._history,
            diag=mirror.diag,
        )

    async def _read_history(self) -> None:
        """Read the ended jobs anew from time to time; a cluster without accounting has none."""
        now = self._now()
        if now - self._history_at < HISTORY_INTERVAL:
            return
        self._history_at = now
        try:
            self._history = await self._client.accounting.jobs(start_time=int(now) - HISTORY_SECONDS)
        except SlurmError as error:
            log.debug("the history of jobs cannot be read", error=error)

    def _now(self) -> float:
        return self._clock.now().timestamp()
