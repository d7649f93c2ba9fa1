# SPDX-License-Identifier: Apache-2.0
"""Is this process alive, is it ready, and does its loop move.

A check is a function that answers None when all is well and a sentence when not. `LoopLag` measures how late
the event loop runs its timers and exports the histogram; it only observes, the alert threshold belongs to
whoever scrapes it.
"""

import time
from collections.abc import Callable

from slinky.observe.clock import Clock, SystemClock
from slinky.observe.metrics import gauge, histogram

Check = Callable[[], str | None]

LAG = histogram(
    "slinky_event_loop_lag_seconds",
    "How late the event loop ran a timer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
WORST = gauge("slinky_event_loop_lag_max_seconds", "The longest event-loop stall since the start.")


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add_liveness_check(self, name: str, check: Check) -> None:
        """Add a check whose failure means: restart me."""
        self._live[name] = check

    def add_readiness_check(self, name: str, check: Check) -> None:
        """Add a check whose failure means: not yet, or not now."""
        self._ready[name] = check

    def liveness(self) -> dict[str, str]:
        """What is wrong for good, by check; empty when alive."""
        return _complaints(self._live)

    def readiness(self) -> dict[str, str]:
        """What is wrong now, by check; empty when ready."""
        return _complaints(self._live | self._ready)


def _complaints(checks: dict[str, Check]) -> dict[str, str]:
    return {name: words for name, check in checks.items() if (words := check()) is not None}


class LoopLag:
    """Watches the event loop for stalls.

    A stall is seen to within one `interval`, because a timer that was not yet due when the loop froze starts
    counting late.
    """

    def __init__(self, clock: Clock | None = None, interval: float = 0.1, stuck: float = 60.0) -> None:
        self._clock = clock or SystemClock()
        self._interval = interval
        self._stuck = stuck
        self._beat = self._clock.monotonic()
        self.worst = 0.0
        self.worst_busy = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due, busy = self._clock.monotonic() + self._interval, time.thread_time()
            await self._clock.sleep(self._interval)
            self._beat = self._clock.monotonic()
            self._observe(max(0.0, self._beat - due), time.thread_time() - busy)

    def _observe(self, lag: float, busy: float) -> None:
        LAG.observe(lag)
        # Of a stall only the part in which this thread ran is our doing; the rest is a busy machine.
        self.worst_busy = max(self.worst_busy, min(lag, busy))
        if lag > self.worst:
            self.worst = lag
            WORST.set(lag)

    def check(self) -> str | None:
        """A liveness check: the probe itself has run lately."""
        silence = self._clock.monotonic() - self._beat
        return f"event loop silent for {silence:.0f} s" if silence > self._stuck else None
