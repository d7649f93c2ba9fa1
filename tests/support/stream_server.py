# SPDX-License-Identifier: Apache-2.0
"""A server for tests that speaks as its handler says, and has ended completely when the test ends."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(serve: Serve, *, tls: ssl.SSLContext | None = None, path: Path | None = None) -> AsyncIterator[str]:
    """Serve on a port of this machine, or on a unix socket at `path`; yields the URL.

    At the end every client must have closed its connections, so that the handlers end.
    """
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    if path:
        server = await asyncio.start_unix_server(handle, str(path))
        url = f"unix:{path}"
    else:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield url
    await asyncio.gather(*handlers)
