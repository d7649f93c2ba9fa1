# SPDX-License-Identifier: Apache-2.0
"""Debug endpoint of a running process; served only on request (a flag of the process).

`/debug/stacks` lists the stacks of all tasks and threads. `/debug/profile?seconds=5` samples the stack of the event
loop a hundred times a second, from another thread, and returns folded stacks, the input of flame graph tools.
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

SAMPLE_INTERVAL = 0.01
DEFAULT_SECONDS, MAX_SECONDS = 5.0, 60.0


def profile_server(host: str, port: int) -> Callable[[Health], contextlib.AbstractAsyncContextManager[int]]:
    """The debug endpoint as a server for `run_process`."""
    return lambda _health: serve_profile(host, port)


@contextlib.asynccontextmanager
async def serve_profile(host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open. Yields the port."""
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
        seconds = float(request.query.get("seconds", DEFAULT_SECONDS))
    except ValueError:
        return web.Response(status=400, text="the parameter `seconds` must be a number\n")
    samples = round(min(max(seconds, SAMPLE_INTERVAL), MAX_SECONDS) / SAMPLE_INTERVAL)
    return web.Response(text=format_folded(await asyncio.to_thread(sample_stacks, threading.get_ident(), samples)))


def format_stacks() -> str:
    """The stacks of all tasks, then of all threads."""
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        task.print_stack(file=text)
    for thread_id, frame in sys._current_frames().items():
        text.write(f"Thread {thread_id}\n{''.join(traceback.format_stack(frame))}")
    return text.getvalue()


def sample_stacks(thread_id: int, samples: int, sleep: Callable[[float], None] = time.sleep) -> Counter[str]:
    """How often each stack of a thread occurred in so many samples."""
    stacks: Counter[str] = Counter()
    for _ in range(samples):
        frame = sys._current_frames().get(thread_id)
        if frame is not None:
            stacks[_fold(frame)] += 1
        sleep(SAMPLE_INTERVAL)
    return stacks


def format_folded(stacks: Counter[str]) -> str:
    """One line per stack with its count, the most frequent first."""
    return "".join(f"{stack} {count}\n" for stack, count in stacks.most_common())


def _fold(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
