# SPDX-License-Identifier: Apache-2.0
"""Time as an argument.

Everything that waits, times out or stamps takes a `Clock`; processes pass `SystemClock`, tests pass
`ManualClock` and jump hours. Durations are measured on the monotonic side, so a jump of the wall clock never
shortens or lengthens a wait.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """A call that was scheduled and can be taken back."""

    def cancel(self) -> None:
        """Make sure the callback does not run."""


class Clock(Protocol):
    """What a program may ask of time."""

    def monotonic(self) -> float:
        """Seconds that only grow; meaningless between processes."""

    def now(self) -> datetime:
        """Wall time in UTC, for stamps that people and other programs read."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the loop after `seconds`."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def now(self) -> datetime:
        """Wall time in UTC."""
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the running loop after `seconds`."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)


class _Alarm:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._jump = timedelta()
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Seconds that the test let pass."""
        return self._elapsed

    def now(self) -> datetime:
        """Start, plus what passed, plus what `jump` added."""
        return self._start + timedelta(seconds=self._elapsed) + self._jump

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as a bad time server would."""
        self._jump += timedelta(seconds=seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Remember `callback` for when the test passes that moment."""
        alarm = _Alarm(callback)
        heapq.heappush(self._alarms, (self._elapsed + seconds, next(self._order), alarm))
        return alarm

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the clock far enough."""
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking every sleeper at its own moment."""
        target = self._elapsed + seconds
        await settle()
        while self._alarms and self._alarms[0][0] <= target:
            self._elapsed, _, alarm = heapq.heappop(self._alarms)
            if alarm.callback:
                alarm.callback()
                await settle()
        self._elapsed = target
        await settle()


async def settle(turns: int = 10) -> None:
    """Let everything that is ready on the loop run."""
    for _ in range(turns):
        await asyncio.sleep(0)
