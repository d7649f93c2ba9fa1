# SPDX-License-Identifier: Apache-2.0
"""Accepts TLS connections and relays their bytes to a server on the loopback address.

The first byte of a connection tells TLS (a handshake record) from plain HTTP, so that both can use one port: clients
that were set up for http keep working unless TLS is required. Each connection has a bound for its first byte, its
handshake, and for the time that it outlives its client; their number is bounded too.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from slinky.observe import Log, counter, gauge

log = Log("slinky.tlsproxy.proxy")

#: The content type of a TLS record with a handshake message; no HTTP request begins with it.
HANDSHAKE_RECORD = b"\x16"
#: Seconds until the first byte has arrived, for the handshake, and for the connection to the server.
OPEN_SECONDS = 10.0
#: Seconds that the server may need to answer a client that has finished sending.
HALF_CLOSED_SECONDS = 60.0
#: Seconds that open connections get to end before the process does.
SHUTDOWN_SECONDS = 10.0
#: Connections at a time; more wait to be accepted. slurmrestd itself serves 124.
CONNECTIONS_MAX = 256
CHUNK = 64 * 1024

REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This port requires TLS: use https and the certificate authority in the ConfigMap of the RestApi.\n"
)

CONNECTIONS = counter(
    "slinky_tls_proxy_connections_total",
    "Connections by result: relayed with TLS or without, refused without TLS, or failed before a request.",
    "result",
)
OPEN = gauge("slinky_tls_proxy_open_connections", "Connections that are open.")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TlsProxy:
    """Relays connections to one server."""

    def __init__(self, upstream: tuple[str, int], context: ssl.SSLContext, *, required: bool) -> None:
        self._upstream, self._context, self._required = upstream, context, required
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve while the context is open; yields the port. Open connections may end in peace."""
        with socket.create_server((host, port), backlog=CONNECTIONS_MAX) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield listener.getsockname()[1]
            finally:
                accepting.cancel()
                await asyncio.wait({accepting})
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=SHUTDOWN_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def is_upstream_open(self) -> bool:
        """Whether the server accepts connections."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                _, writer = await asyncio.open_connection(*self._upstream)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # the client is gone, or descriptors are used up
                self._slots.release()
                log.warning("a connection was not accepted", error=error)
                await asyncio.sleep(0.05)
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            task = asyncio.create_task(self._handle(connection))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("relaying a connection failed with an unexpected error", error=error)

    async def _handle(self, connection: socket.socket) -> None:
        with OPEN.track_inprogress():
            try:
                await self._relay_connection(connection)
            except (OSError, TimeoutError, EOFError) as error:
                CONNECTIONS.labels("failed").inc()
                log.debug("a connection ended early", error=error)
            finally:
                connection.close()

    async def _relay_connection(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(OPEN_SECONDS):
                secure = await _peek(connection) == HANDSHAKE_RECORD
                client = await _open_streams(connection, self._context if secure else None)
                stack.callback(client[1].close)
                if self._required and not secure:
                    await client[0].read(CHUNK)  # a socket that is closed with unread bytes discards the answer
                    client[1].write(REFUSAL)
                    await client[1].drain()
                    CONNECTIONS.labels("refused").inc()
                    return
                server = await asyncio.open_connection(*self._upstream, limit=CHUNK)
                stack.callback(server[1].close)
            CONNECTIONS.labels("tls" if secure else "plain").inc()
            await _relay(client, server)


async def _peek(connection: socket.socket) -> bytes:
    """The first byte, which stays in the socket. Raises `EOFError` if the client sends none."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    first = connection.recv(1, socket.MSG_PEEK)
    if not first:
        raise EOFError("the client sent nothing")
    return first


async def _open_streams(connection: socket.socket, context: ssl.SSLContext | None) -> Streams:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK)
    # uvloop returns its own protocol for a TLS connection, which cannot wait for the peer to read.
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol,
        connection.dup(),  # the transport closes its descriptor, the caller the other one
        ssl=context,
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _relay(client: Streams, server: Streams) -> None:
    """Copy both ways until the server has answered, or the client is gone."""
    answers = asyncio.create_task(_copy(server[0], client[1]))
    requests = asyncio.create_task(_copy(client[0], server[1]))
    try:
        done, _ = await asyncio.wait({answers, requests}, return_when=asyncio.FIRST_COMPLETED)
        if answers not in done:
            if requests.exception() is None:
                server[1].write_eof()
            await asyncio.wait({answers}, timeout=HALF_CLOSED_SECONDS)
        for task in (answers, requests):
            if task.done():
                task.result()
    finally:
        for task in (answers, requests):
            task.cancel()
        await asyncio.gather(answers, requests, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
