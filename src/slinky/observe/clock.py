# SPDX-License-Identifier: Apache-2.0
"""Time as an argument.

Code that waits, measures a duration or writes a timestamp takes a `Clock`. Processes pass `SystemClock`; tests pass
`ManualClock` and advance it by hours. Durations use the monotonic time, so a change of the wall clock never shortens or
lengthens a wait. Deadlines that are written into objects need the wall clock; a jump of it counts only after a while,
so that a wrong time of minutes ends no job.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from slinky.observe.log import Log

log = Log("slinky.observe.clock")

#: A larger difference between two looks at the wall clock is a jump; corrections of NTP are smaller.
JUMP_SECONDS = 30.0
#: Seconds for which a new time must hold until it counts.
SETTLE_SECONDS = 600.0


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Prevent the callback from running."""


class Clock(Protocol):
    """The time functions that a program uses."""

    def monotonic(self) -> float:
        """Seconds that never decrease; not comparable between processes."""

    def now(self) -> datetime:
        """Wall-clock time in UTC, for timestamps that people and other programs read."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the event loop after `seconds`."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class SystemClock:
    """The clock of the machine and the timers of the running event loop.

    The wall clock is followed while it advances with the monotonic time, small corrections included. After a jump,
    `now` goes on from the time before it, until the new time has held for `SETTLE_SECONDS`. Meanwhile a log line names
    the jump, and an administrator can correct the clock.
    """

    def __init__(
        self, wall_time: Callable[[], float] = time.time, monotonic_time: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall_time, self._monotonic_time = wall_time, monotonic_time
        self._offset = wall_time() - monotonic_time()
        self._jumped_at: float | None = None

    def monotonic(self) -> float:
        """Seconds that never decrease."""
        return self._monotonic_time()

    def now(self) -> datetime:
        """Wall-clock time in UTC, without jumps of the last minutes."""
        elapsed = self._monotonic_time()
        offset = self._wall_time() - elapsed
        if abs(offset - self._offset) <= JUMP_SECONDS:
            self._offset, self._jumped_at = offset, None
        elif self._jumped_at is None:
            self._jumped_at = elapsed
            log.warning(
                "the clock of the machine has jumped; the time before the jump goes on for a while",
                seconds=round(offset - self._offset),
                settle_seconds=SETTLE_SECONDS,
            )
        elif elapsed - self._jumped_at >= SETTLE_SECONDS:
            self._offset, self._jumped_at = offset, None
        return datetime.fromtimestamp(elapsed + self._offset, UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the running event loop after `seconds`."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(seconds)


class _ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that advances only when a test says so."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._wall_offset = timedelta()
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._sequence = itertools.count()

    def monotonic(self) -> float:
        """The seconds by which the test has advanced the clock."""
        return self._elapsed

    def now(self) -> datetime:
        """The start time, plus the elapsed time, plus all jumps."""
        return self._start + timedelta(seconds=self._elapsed) + self._wall_offset

    def jump(self, seconds: float) -> None:
        """Change the wall clock but not the monotonic time, as a wrong time server does."""
        self._wall_offset += timedelta(seconds=seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` when the test advances the clock past that time."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + seconds, next(self._sequence), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has advanced the clock by `seconds`."""
        elapsed = asyncio.Event()
        timer = self.call_later(seconds, elapsed.set)
        try:
            await elapsed.wait()
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Advance the clock and run each timer at its own time."""
        target = self._elapsed + seconds
        await settle()
        while self._timers and self._timers[0][0] <= target:
            self._elapsed, _, timer = heapq.heappop(self._timers)
            if timer.callback:
                timer.callback()
                await settle()
        self._elapsed = target
        await settle()


async def settle(rounds: int = 10) -> None:
    """Let all tasks that are ready run."""
    for _ in range(rounds):
        await asyncio.sleep(0)
