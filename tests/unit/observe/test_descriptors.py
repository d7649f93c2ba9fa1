# SPDX-License-Identifier: Apache-2.0
"""A descriptor that uvloop has not noticed to be closed costs one request and not the process."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from slinky.kube.aio_transport import AioTransport
from slinky.kube.auth import NoToken
from slinky.kube.config import Access
from slinky.kube.errors import Unreachable
from slinky.observe.descriptors import occupy_stale_descriptor
from slinky.observe.process import loop_factory
from slinky.slurm.errors import TransportError
from slinky.slurm.transport.http import HttpTransport

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


async def send_to_api_server(url: str) -> bytes:
    transport = AioTransport(Access(url, NoToken()))
    try:
        return bytes((await transport.request("GET", "/x", deadline=5)).body)
    finally:
        await transport.close()


async def send_to_slurmrestd(url: str) -> bytes:
    async with HttpTransport(url) as transport:
        return bytes((await transport.send("POST", "/x", headers={}, deadline=5)).body)


async def refuse_and_recover(send: Callable[[str], Awaitable[bytes]]) -> list[Exception]:
    """Close the descriptor of a connection without the knowledge of uvloop; then send again and again."""
    sockets: list[socket.socket] = []
    received = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if b"/hangs" in await reader.readuntil(b"\r\n\r\n"):
                received.set()
                await reader.read()
            else:
                writer.write(RESPONSE)
        writer.close()

    def create_socket(info: tuple[Any, ...]) -> socket.socket:
        sockets.append(socket.socket(*info[:3]))
        return sockets[-1]

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=create_socket)) as session:
        hanging = asyncio.create_task(session.get(f"{url}/hangs"))
        await received.wait()
        os.close(sockets[0].fileno())
        errors: list[Exception] = []
        for _ in range(3):
            try:
                assert await send(url) == b"ok"
            except (Unreachable, TransportError, RuntimeError) as error:
                errors.append(error)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        assert await send(url) == b"ok"
    server.close()
    return errors


@pytest.mark.parametrize("send", [send_to_api_server, send_to_slurmrestd])
def test_a_connection_that_uvloop_refuses_is_a_failed_request_and_the_next_one_succeeds(
    send: Callable[[str], Awaitable[bytes]],
) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        errors = runner.run(refuse_and_recover(send))
    (error,) = errors
    assert isinstance(error, Unreachable | TransportError)
    assert "is used by transport" in str(error)
    assert not getattr(error, "maybe_applied", False)


def test_another_error_is_not_taken_for_it() -> None:
    assert not occupy_stale_descriptor(RuntimeError("the session is closed"))
