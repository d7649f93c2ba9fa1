# SPDX-License-Identifier: Apache-2.0
"""A proxy that injects faults: it takes plain HTTP and speaks TLS to the real API server."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

Fault = Callable[[int], int | float | None]
"""For connection number n: cut it after so many bytes (int) or seconds (float) of the response, or not (None)."""


class ApiServerProxy:
    """Forwards bytes between a client and the API server."""

    def __init__(self, upstream: str, ca: Path) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._trust = ssl.create_default_context(cafile=str(ca))
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.fault: Fault = lambda _: None
        self.canned: list[bytes] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ApiServerProxy"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        self.connections += 1
        try:
            if self.canned:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.canned.pop(0))
                await writer.drain()
            else:
                await self._forward(reader, writer, self.fault(self.connections))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | float | None
    ) -> None:
        above, below = await asyncio.open_connection(self._host, self._port, ssl=self._trust)
        seconds = limit if isinstance(limit, float) else None
        up = asyncio.ensure_future(pump(reader, below, None))
        down = asyncio.ensure_future(pump(above, writer, limit if isinstance(limit, int) else None))
        try:
            await asyncio.wait({up, down}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pumping in (up, down):
                pumping.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            below.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    left = limit
    while data := await reader.read(65536 if left is None else min(65536, left)):
        writer.write(data)
        await writer.drain()
        if left is not None:
            left -= len(data)
            if left <= 0:
                return
