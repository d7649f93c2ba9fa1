# SPDX-License-Identifier: Apache-2.0
"""Liveness, readiness and the lag of the event loop.

A check is a function that returns None when all is well, and a message otherwise. `LoopLag` measures how late the event
loop runs its timers and exports a histogram of it. It fails the liveness check only when the loop stands still; alerts
on the histogram belong to the monitoring system.
"""

import time
from collections.abc import Callable

from slinky.observe.clock import Clock, SystemClock
from slinky.observe.metrics import gauge, histogram

Check = Callable[[], str | None]

LAG = histogram(
    "slinky_event_loop_lag_seconds",
    "Delay between the due time of a timer and its execution by the event loop.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
MAX_LAG = gauge("slinky_event_loop_lag_max_seconds", "Longest event loop lag since the process started.")
MAX_BUSY = gauge(
    "slinky_event_loop_busy_max_seconds",
    "Longest part of an event loop lag in which the thread of the loop used the CPU, since the process started.",
)


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._liveness: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}

    def add_liveness_check(self, name: str, check: Check) -> None:
        """Add a check whose failure makes the kubelet restart the process."""
        self._liveness[name] = check

    def add_readiness_check(self, name: str, check: Check) -> None:
        """Add a check whose failure keeps requests away from the process."""
        self._readiness[name] = check

    def liveness(self) -> dict[str, str]:
        """The messages of failed liveness checks; empty when the process is alive."""
        return _failures(self._liveness)

    def readiness(self) -> dict[str, str]:
        """The messages of all failed checks; empty when the process is ready."""
        return _failures(self._liveness | self._readiness)


def _failures(checks: dict[str, Check]) -> dict[str, str]:
    return {name: message for name, check in checks.items() if (message := check()) is not None}


class LoopLag:
    """Measures stalls of the event loop.

    A stall is measured to within one `interval`: a timer that was not yet due when the loop stalled starts to count
    late.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        interval: float = 0.1,
        stuck: float = 60.0,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock or SystemClock()
        self._interval = interval
        self._stuck = stuck
        self._thread_time = thread_time
        self.last_run = self._clock.monotonic()
        self.worst = 0.0
        self.worst_busy = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due, cpu = self._clock.monotonic() + self._interval, self._thread_time()
            await self._clock.sleep(self._interval)
            self.last_run = self._clock.monotonic()
            self._observe(max(0.0, self.last_run - due), self._thread_time() - cpu)

    def _observe(self, lag: float, busy: float) -> None:
        LAG.observe(lag)
        # Only the part of a stall in which this thread ran is caused by the process; the rest is a busy machine.
        if min(lag, busy) > self.worst_busy:
            self.worst_busy = min(lag, busy)
            MAX_BUSY.set(self.worst_busy)
        if lag > self.worst:
            self.worst = lag
            MAX_LAG.set(lag)

    def check(self) -> str | None:
        """A liveness check: fails when `run` has not been scheduled for `stuck` seconds."""
        silence = self._clock.monotonic() - self.last_run
        return f"the event loop has not run for {silence:.0f} s" if silence > self._stuck else None
