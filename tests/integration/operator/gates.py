# SPDX-License-Identifier: Apache-2.0
"""Gates in front of the API server and of slurmrestd that see every write, and an operator that can die at each.

A gate forwards. With `deadly` set, it carries out each write that it has never seen, tells nobody, and kills the
operator with -9: the next one has to make do with what is there.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from slinky.lab.kubernetes.bare_plane import WITH_US

WRITES = {"POST", "PUT", "PATCH", "DELETE"}
#: What differs between two lives that do the same.
FLEETING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z?|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|\"resourceVersion\":\"\d+\"", re.ASCII
)
ZYGOTE = """
import json, os, signal, sys
import msgspec, uvloop
from slinky.observe.log import setup
from slinky.observe.process import run
from slinky.operator.app import main
from slinky.operator.settings import Settings
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        setup()
        settings = msgspec.json.decode(line, type=Settings)
        os._exit(run(lambda health: main(settings, health), [(settings.host, settings.port)]))
    print(pid, flush=True)
"""


Meanwhile = Callable[[web.Request], Awaitable[None]]
"""What somebody else does while a write is on its way."""


class Lives:
    """The operator as a real process, again and again: forked from one that has everything imported already."""

    def __init__(self, settings: Mapping[str, Any], log: Path) -> None:
        self.port = settings["port"]
        self._line = json.dumps(settings).encode() + b"\n"
        self._log = log.open("ab")
        argv = [*WITH_US, sys.executable, "-c", ZYGOTE]
        self._zygote = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self.pid = 0
        self.count = 0

    def begin(self) -> None:
        """Start an operator."""
        assert self._zygote.stdin
        assert self._zygote.stdout
        self._zygote.stdin.write(self._line)
        self._zygote.stdin.flush()
        self.pid = int(self._zygote.stdout.readline())
        self.count += 1

    def kill(self) -> None:
        """End it as an out-of-memory killer would."""
        with contextlib.suppress(ProcessLookupError):
            while self.pid:
                os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.002)  # until it is gone, and its port is free
        self.pid = 0

    def close(self) -> None:
        """End everything."""
        self.kill()
        self._zygote.kill()
        self._zygote.communicate()
        self._log.close()


class Gates:
    """Two servers and who goes through."""

    def __init__(self) -> None:
        self.lives: Lives | None = None
        self.deadly = False
        self.closed: set[str] = set()  # names of gates, or parts of paths behind them
        self.boundaries: set[str] = set()
        self.meanwhile: Meanwhile | None = None
        self.delays: dict[str, float] = {}  # seconds that questions wait at a gate, by its name
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def before(
        self, name: str, target: str, host: str = "127.0.0.1", port: int = 0, **more: Any
    ) -> AsyncIterator[str]:
        """A gate in front of `target`; its address."""
        headers, context = more.get("headers", {}), more.get("ssl")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=context or False)) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(name, session, target, headers, request)

            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, host, port).start()
            try:
                yield f"http://{host}:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    async def _handle(
        self,
        name: str,
        session: aiohttp.ClientSession,
        target: str,
        headers: Mapping[str, str],
        request: web.Request,
    ) -> web.StreamResponse:
        if any(part in f"{name}{request.path}" for part in self.closed):
            return _cut(request)
        if request.method not in WRITES:
            await asyncio.sleep(self.delays.get(name, 0))
        body = await request.read()
        kept = {k: v for k, v in request.headers.items() if k.lower() not in {"host", "content-length"}}
        call = session.request(
            request.method, target + request.raw_path, data=body or None, headers={**kept, **headers}
        )
        if request.method not in WRITES or "/events" in request.path:
            async with call as answer:
                return await _passed(request, answer)
        if self.meanwhile:
            await self.meanwhile(request)
        life = self.lives.pid if self.lives else 0
        async with self._turn:
            if self.lives and life != self.lives.pid:
                call.close()
                return _cut(request)  # it died before this was sent
            async with call as answer:
                found = await answer.read()
            write = f"{request.method} {request.path} {FLEETING.sub('', body.decode(errors='replace'))}"
            if self.deadly and self.lives and write not in self.boundaries:
                self.boundaries.add(write)
                self.lives.kill()
                self.lives.begin()
                return _cut(request)
        return web.Response(status=answer.status, body=found, headers=_kind(answer))


def _kind(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {"Content-Type": answer.headers.get("Content-Type", "application/json")}


def _cut(request: web.Request) -> web.Response:
    """No answer at all."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


async def _passed(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=_kind(answer))
    await response.prepare(request)
    with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    return response
