# SPDX-License-Identifier: Apache-2.0
"""A look inside a running process: what its tasks wait for, and where its time goes. A door that is opened on request.

`/debug/stacks` shows every task and thread. `/debug/profile?seconds=5` looks at the thread of the event loop a hundred
times a second, from another thread, and answers in folded stacks, which tools for flame graphs read.
"""

import asyncio
import contextlib
import io
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from types import FrameType

from aiohttp import web

from slinky.observe.health import Health

RATE = 0.01
USUAL, LONGEST = 5.0, 60.0


def profile_server(host: str, port: int) -> Callable[[Health], contextlib.AbstractAsyncContextManager[int]]:
    """The door; give it to `run`."""
    return lambda _health: serve_profile(host, port)


@contextlib.asynccontextmanager
async def serve_profile(host: str, port: int) -> AsyncIterator[int]:
    """Answer while inside; gives the port."""
    app = web.Application()
    app.add_routes([web.get("/debug/stacks", _stacks), web.get("/debug/profile", _profile)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _stacks(_: web.Request) -> web.Response:
    return web.Response(text=format_stacks())


async def _profile(request: web.Request) -> web.Response:
    try:
        seconds = float(request.query.get("seconds", USUAL))
    except ValueError:
        return web.Response(status=400, text="seconds must be a number\n")
    looks = round(min(max(seconds, RATE), LONGEST) / RATE)
    return web.Response(text=format_folded(await asyncio.to_thread(sample_stacks, threading.get_ident(), looks)))


def format_stacks() -> str:
    """Every task, then every thread, each with where it is."""
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda found: found.get_name()):
        task.print_stack(file=text)
    for number, frame in sys._current_frames().items():
        text.write(f"Thread {number}\n{''.join(traceback.format_stack(frame))}")
    return text.getvalue()


def sample_stacks(thread: int, looks: int, pause: Callable[[float], None] = time.sleep) -> Counter[str]:
    """How often a thread was found where, over so many looks."""
    found: Counter[str] = Counter()
    for _ in range(looks):
        frame = sys._current_frames().get(thread)
        if frame is not None:
            found[_folded(frame)] += 1
        pause(RATE)
    return found


def format_folded(found: Counter[str]) -> str:
    """One line per place, the most frequent first."""
    return "".join(f"{place} {count}\n" for place, count in found.most_common())


def _folded(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
