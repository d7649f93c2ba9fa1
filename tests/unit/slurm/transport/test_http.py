# SPDX-License-Identifier: Apache-2.0
"""The life of a pool of connections to slurmrestd."""

import asyncio

import pytest

from slinky.slurm import TransportError
from slinky.slurm.transport.http import HttpTransport


async def test_a_closed_transport_opens_no_connection_again() -> None:
    """A task that still has the client of a removed cluster must not leave a connection open for ever."""
    requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        transport = HttpTransport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert (await transport.send("GET", "/", headers={})).body == b"ok"
        await transport.close()
        with pytest.raises(TransportError, match="the client is closed"):
            await transport.send("GET", "/", headers={})
    assert requests == 1
