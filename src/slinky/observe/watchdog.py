# SPDX-License-Identifier: Apache-2.0
"""Finds what stalls the event loop.

`LoopLag` measures a stall when it is over, because the probe runs in the loop itself. This watchdog runs in a thread of
its own: while the loop does not run for `STALL_SECONDS`, it counts the stall and logs the stack of the loop's thread
once, which names the function that blocks. `run_process` starts it in every process.
"""

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator

from slinky.observe.log import Log
from slinky.observe.metrics import counter

log = Log("slinky.observe.watchdog")

#: The event loop renews the lease and serves the probes; a longer pause is reported.
STALL_SECONDS = 1.0
_PERIOD = 0.25
#: Frames of the stack that are logged; the innermost ones.
_FRAMES = 12

STALLS = counter("slinky_event_loop_stalls_total", "Times that the event loop did not run for one second or longer.")


class StallWatchdog:
    """Watches the event loop of one thread; `last_run` is the monotonic time at which the loop ran last."""

    def __init__(
        self, last_run: Callable[[], float], thread_id: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._last_run, self._thread_id, self._monotonic = last_run, thread_id, monotonic
        self._is_reported = False

    def check(self) -> None:
        """Report a stall, once until the loop runs again."""
        silence = self._monotonic() - self._last_run()
        if silence < STALL_SECONDS:
            self._is_reported = False
        elif not self._is_reported:
            self._is_reported = True
            STALLS.inc()
            log.warning("the event loop is stalled", seconds=round(silence, 1), stack=self._stack())

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)
        return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else ""

    @contextlib.contextmanager
    def running(self, period: float = _PERIOD) -> Iterator[None]:
        """Watch while the context is open."""
        stopped = threading.Event()

        def watch() -> None:
            while not stopped.wait(period):
                self.check()

        thread = threading.Thread(target=watch, name="stall-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()
