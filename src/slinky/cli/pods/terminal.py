# SPDX-License-Identifier: Apache-2.0
"""Connects the terminal of this command with a command in a container."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator

from slinky.kube.exec import STDERR, ExecSession

CHUNK_BYTES = 4096


async def connect_terminal(session: ExecSession, *, is_terminal: bool) -> int:
    """Copy standard input and output until the command ends; returns its exit code."""
    loop = asyncio.get_running_loop()
    outgoing: asyncio.Queue[bytes] = asyncio.Queue()
    descriptor = sys.stdin.fileno()
    reading = asyncio.create_task(_send_input(session, outgoing))
    # A file cannot be watched by the loop, and never blocks for long: it is read by a thread.
    feeding = asyncio.create_task(_feed(descriptor, outgoing))
    with raw_mode(descriptor) if is_terminal else contextlib.nullcontext():
        if is_terminal:
            await _resize(session)
            loop.add_signal_handler(signal.SIGWINCH, lambda: asyncio.ensure_future(_resize(session)))
        try:
            async for channel, data in session.output():
                os.write(sys.stderr.fileno() if channel == STDERR else sys.stdout.fileno(), data)
        finally:
            if is_terminal:
                loop.remove_signal_handler(signal.SIGWINCH)
            for task in (reading, feeding):
                task.cancel()
            await asyncio.gather(reading, feeding, return_exceptions=True)
    return session.exit_code or 0


async def _feed(descriptor: int, outgoing: "asyncio.Queue[bytes]") -> None:
    """Read standard input until its end; the loop waits for a terminal or pipe, a file is read at once.

    It is read in the callback, once each time that the loop reports it readable: a further read would block the loop.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        data = os.read(descriptor, CHUNK_BYTES)
        outgoing.put_nowait(data)
        if not data:
            ended.set()
            loop.remove_reader(descriptor)

    try:
        loop.add_reader(descriptor, read)
    except PermissionError:
        while data := os.read(descriptor, CHUNK_BYTES):
            outgoing.put_nowait(data)
        outgoing.put_nowait(b"")
        return
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)


async def _send_input(session: ExecSession, outgoing: "asyncio.Queue[bytes]") -> None:
    while data := await outgoing.get():
        await session.write(data)
    await session.end_input()


async def _resize(session: ExecSession) -> None:
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
        await session.resize(size.columns, size.lines)


@contextlib.contextmanager
def raw_mode(descriptor: int) -> Iterator[None]:
    """Pass every key to the command in the container, Ctrl-C too."""
    before = termios.tcgetattr(descriptor)
    # What a person has typed already is kept.
    tty.setraw(descriptor, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
