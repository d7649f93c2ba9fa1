# SPDX-License-Identifier: Apache-2.0
"""Proxies in front of the API server and of slurmrestd that see every write, and an operator that they can kill.

A proxy forwards requests. With `kills_operator` set, it carries out each write that it sees for the first time, returns
no answer, kills the operator with SIGKILL and starts another one, which has to continue from the state on the servers.
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
#: What differs between two runs that write the same.
VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z?|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|\"resourceVersion\":\"\d+\"", re.ASCII
)
#: A process that has imported everything and forks an operator for each line of settings; it prints the process ids.
#: Each operator ends with this process (1 is PR_SET_PDEATHSIG): a fork does not inherit the signal that setpriv sets.
FORK_SERVER = """
import ctypes, json, os, signal, sys
import msgspec, uvloop
from slinky.observe.log import setup_logging
from slinky.observe.process import run_process
from slinky.operator.app import main
from slinky.operator.settings import StandaloneSettings
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        setup_logging()
        settings = msgspec.json.decode(line, type=StandaloneSettings)
        os._exit(run_process(lambda health: main(settings, health), [(settings.host, settings.port)]))
    print(pid, flush=True)
"""


BeforeWrite = Callable[[web.Request], Awaitable[None]]
"""Called with each write before it is forwarded."""


class ForkedOperator:
    """The operator as a process that starts fast, because a server that has imported everything forks it."""

    def __init__(self, settings: Mapping[str, Any], log: Path) -> None:
        self.port = settings["port"]
        self._settings = json.dumps(settings).encode() + b"\n"
        self._log = log.open("ab")
        argv = [*WITH_US, sys.executable, "-c", FORK_SERVER]
        self._server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self.pid = 0
        self.starts = 0

    def start(self) -> None:
        """Start an operator."""
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(self._settings)
        self._server.stdin.flush()
        self.pid = int(self._server.stdout.readline())
        self.starts += 1

    def kill(self) -> None:
        """End the operator with SIGKILL, and wait until its port is free."""
        with contextlib.suppress(ProcessLookupError):
            while self.pid:
                os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.002)
        self.pid = 0

    def close(self) -> None:
        """End the operator and the server."""
        self.kill()
        self._server.kill()
        self._server.communicate()
        self._log.close()


class FaultProxy:
    """The proxies of one operator, by name, and the faults that they cause."""

    def __init__(self) -> None:
        self.operator: ForkedOperator | None = None
        self.kills_operator = False
        self.closed: set[str] = set()  # names of proxies, or parts of paths behind them, that get no answer
        self.writes: set[str] = set()  # after which the operator was killed
        self.before_write: BeforeWrite | None = None
        self.delays: dict[str, float] = {}  # seconds that reads wait, by the name of the proxy
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def serve(
        self, name: str, target: str, host: str = "127.0.0.1", port: int = 0, **more: Any
    ) -> AsyncIterator[str]:
        """Run a proxy in front of `target`; its URL."""
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
            return _abort(request)
        if request.method not in WRITES:
            await asyncio.sleep(self.delays.get(name, 0))
        body = await request.read()
        kept = {k: v for k, v in request.headers.items() if k.lower() not in {"host", "content-length"}}
        call = session.request(
            request.method, target + request.raw_path, data=body or None, headers={**kept, **headers}
        )
        if request.method not in WRITES or "/events" in request.path:
            async with call as answer:
                return await _forward(request, answer)
        if self.before_write:
            await self.before_write(request)
        sender = self.operator.pid if self.operator else 0
        async with self._lock:
            if self.operator and sender != self.operator.pid:
                call.close()
                return _abort(request)  # the sender was killed before this was forwarded
            async with call as answer:
                content = await answer.read()
            write = f"{request.method} {request.path} {VOLATILE.sub('', body.decode(errors='replace'))}"
            if self.kills_operator and self.operator and write not in self.writes:
                self.writes.add(write)
                self.operator.kill()
                self.operator.start()
                return _abort(request)
        return web.Response(status=answer.status, body=content, headers=_content_type(answer))


def _content_type(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {"Content-Type": answer.headers.get("Content-Type", "application/json")}


def _abort(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


async def _forward(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=_content_type(answer))
    await response.prepare(request)
    with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    return response
