# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: a live status line on a terminal, plain lines elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.status import Status


class Progress:
    """Reports steps as they start, move and end; safe to use from several threads."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, quiet=quiet)
        self._lock = threading.Lock()
        self._active: dict[str, str] = {}
        self._status: Status | None = None
        self._percent: int | None = None
        self.seconds: dict[str, float] = {}

    def share(self, done: float, total: float) -> None:
        """Show how far the whole work is, until all of it is done."""
        with self._lock:
            self._percent = int(100 * done / total) if done < total else None

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(f"  {text}", markup=False, soft_wrap=True)

    def step(self, name: str, detail: str) -> None:
        """Show how far a running task is."""
        with self._lock:
            if name in self._active:
                self._active[name] = detail
                self._redraw()

    @contextlib.contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Report the start, the end and the duration of a task."""
        started = time.monotonic()
        if not self._console.is_terminal:
            self.note(f"... {name}{self._share_text()}")
        with self._lock:
            self._active[name] = ""
            self._redraw()
        try:
            yield
        except BaseException:
            self._finish(name)
            self.note(f"!!! {name}: failed after {time.monotonic() - started:.1f} s")
            raise
        self.seconds[name] = round(time.monotonic() - started, 2)
        self._finish(name)
        self.note(f"ok  {name} ({self.seconds[name]:.1f} s)")

    def _finish(self, name: str) -> None:
        with self._lock:
            self._active.pop(name, None)
            self._redraw()

    def _share_text(self) -> str:
        return "" if self._percent is None else f" ({self._percent} % of the whole done)"

    def _redraw(self) -> None:
        if not self._console.is_terminal or self._console.quiet:
            return
        text = "; ".join(f"{name} {detail}".strip() for name, detail in self._active.items())
        if text and self._percent is not None:
            text = f"{self._percent} %  {text}"
        if not text:
            if self._status:
                self._status.stop()
                self._status = None
        elif self._status:
            self._status.update(text)
        else:
            self._status = self._console.status(text)
            self._status.start()
