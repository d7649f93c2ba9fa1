# SPDX-License-Identifier: Apache-2.0
"""Shows a view of a cluster once, or with `--watch` again whenever it changes, until Ctrl-C or the end of the pipe.

A look while nothing changes costs slurmctld two short answers, and draws nothing. While Slurm or Kubernetes cannot be
reached, the last view stays, with its age and the cause.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.access.reader import SnapshotReader
from slinky.cli.cluster.command import ClusterOptions
from slinky.cli.cluster.output import OutputFormat
from slinky.cli.cluster.view import ClusterView
from slinky.insight.plain_text import plain
from slinky.slurm.errors import AuthError, Retryable

T = TypeVar("T")

#: Escape sequences of a terminal: first cell, end of line, rest of the screen, and wrapping of long lines.
HOME, CLEAR_LINE, CLEAR_REST, WRAP_OFF, WRAP_ON = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[?7l", "\x1b[?7h"


async def show_view(options: ClusterOptions, view: ClusterView[T]) -> None:
    """Show a view once."""
    async with open_cluster(options) as cluster:
        data = await view.read(cluster, SnapshotReader(cluster.client))
    is_empty = True
    for part in view.stream(data) if view.stream else (view.render(data),):
        typer.echo(part, nl=False)
        sys.stdout.flush()
        is_empty &= not part
    if not is_empty:
        typer.echo()


async def watch_view(options: ClusterOptions, view: ClusterView[T], output: OutputFormat, interval: float) -> None:
    """Show a view again whenever it changes."""
    # Imported here: the Kubernetes client costs more than everything else at the start of the command.
    from slinky.kube.errors import Unreachable

    screen = WatchScreen(output)
    refusals = 0
    with closed_pipe() as closed, contextlib.suppress(BrokenPipeError):
        while not closed.is_set():
            drawn = screen.draws
            try:
                await _follow(options, view, screen, closed, interval)
            except (AuthError, Retryable, Unreachable) as error:
                # A token may have expired: the next connection reads it again, once.
                refusals = 0 if screen.draws > drawn else refusals + isinstance(error, AuthError)
                if not screen.draws or refusals > 1:
                    raise
                screen.report_outage(str(error))
                await wait_for(closed, interval)
    _ignore_output_after(closed)


async def _follow(
    options: ClusterOptions, view: ClusterView[T], screen: "WatchScreen", closed: asyncio.Event, interval: float
) -> None:
    """Show a view over one connection, until the pipe closes. Raises what reading raises."""
    last: T | None = None
    async with open_cluster(options) as cluster:
        reader = SnapshotReader(cluster.client)
        while not closed.is_set():
            data = await view.read(cluster, reader)
            if data != last:
                screen.show(view.render(data))
                last = data
            else:
                screen.confirm()
            await wait_for(closed, interval)


class WatchScreen:
    """Standard output of a watch: a terminal that is redrawn, or a stream with one text after another."""

    def __init__(self, output: OutputFormat, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._separator = {OutputFormat.YAML: "---\n", OutputFormat.TEXT: "\n", OutputFormat.WIDE: "\n"}.get(output, "")
        self._text: str | None = None
        self._outage_since = 0.0
        self._changed = 0.0
        self.draws = 0

    def show(self, text: str) -> None:
        """Draw a text, if it differs from the last one or an outage has ended."""
        changed = text != self._text
        if changed:
            self._changed = self._clock()
        elif not self._outage_since:
            return
        self._text, self._outage_since = text, 0.0
        if sys.stdout.isatty():
            self._redraw(f"last change {_time(self._changed)}; Ctrl-C ends")
        elif changed:
            self._write(f"{self._separator if self.draws else ''}{text}\n")
        self.draws += 1

    def confirm(self) -> None:
        """The data are the same as before; redraw only if an outage was shown."""
        if self._outage_since and self._text is not None:
            self.show(self._text)

    def report_outage(self, cause: str) -> None:
        """Say that what is shown is old, and why: on a terminal below it, otherwise once on standard error."""
        is_new = not self._outage_since
        self._outage_since = self._outage_since or self._clock()
        age = int(self._clock() - self._outage_since)
        sentence = f"no answer for {age} s, shown is the state of {_time(self._outage_since)}: {plain(cause, 300)}"
        if sys.stdout.isatty():
            self._redraw(sentence)
        elif is_new:
            typer.echo(f"slinky: {sentence}", err=True)

    def _redraw(self, footer: str) -> None:
        lines = clip(f"{self._text}".splitlines(), shutil.get_terminal_size().lines - 2)
        body = "".join(f"{line}{CLEAR_LINE}\n" for line in [*lines, "", footer][: len(lines) + 2]).removesuffix("\n")
        self._write(f"{WRAP_OFF}{HOME}{body}{CLEAR_REST}{WRAP_ON}")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def clip(lines: list[str], height: int) -> list[str]:
    """The first lines of a text that is too long for a terminal, and how many are left out."""
    height = max(height, 2)
    if len(lines) <= height:
        return lines
    return [*lines[: height - 1], f"({len(lines) - height + 1} more lines)"]


async def wait_for(closed: asyncio.Event, seconds: float) -> None:
    """Wait some seconds, less if the pipe closes."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(closed.wait(), seconds)


@contextlib.contextmanager
def closed_pipe() -> Iterator[asyncio.Event]:
    """An event that is set when the reader of standard output goes away; only for a pipe."""
    closed = asyncio.Event()
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        yield closed
        return
    if not stat.S_ISFIFO(mode):
        yield closed
        return
    loop = asyncio.get_running_loop()

    def notice() -> None:
        loop.remove_reader(descriptor)
        closed.set()

    # A pipe that is only written to becomes readable in one case: its reader has closed it.
    loop.add_reader(descriptor, notice)
    try:
        yield closed
    finally:
        loop.remove_reader(descriptor)


def _ignore_output_after(closed: asyncio.Event) -> None:
    """Python flushes standard output at its end, which fails after the pipe is closed."""
    with contextlib.suppress(OSError, ValueError):
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            closed.set()
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
