# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import functools
import itertools
import math

import pytest
from aiohttp.client_proto import ResponseHandler
from hypothesis import given, settings
from hypothesis import strategies as st

from slinky.slurm.transport import http
from slinky.slurm.transport.http import HttpTransport
from slinky.slurm.transport.response_guard import ResponseGuard, install_guard, remaining_bytes

CLOSING = b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 5\r\n\r\n"
SECOND = b"HTTP/1.1 404 NOT FOUND\r\nConnection: Close\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize(
    ("head", "left"),
    [
        (CLOSING[:-1], None),
        (CLOSING, 5),
        (CLOSING + b"12345", 0),
        (CLOSING + b"12345" + SECOND, -len(SECOND)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12", math.inf),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n12", math.inf),
        (b"x" * 70_000, math.inf),
    ],
)
def test_only_a_closing_response_of_known_length_has_an_end(head: bytes, left: float | None) -> None:
    assert remaining_bytes(head) == left


@settings(max_examples=20)
@given(st.lists(st.integers(1, len(CLOSING) + 4 + len(SECOND)), max_size=4).map(sorted))
async def test_the_second_response_of_slurmrestd_is_dropped_however_it_arrives(cuts: list[int]) -> None:
    responses = CLOSING + b"12345" + SECOND
    edges = [0, *cuts, len(responses)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start, end in itertools.pairwise(edges):
            writer.write(responses[start:end])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, HttpTransport(f"http://127.0.0.1:{port}") as transport:
        reply = await transport.send("GET", "/", headers={})
    assert (reply.status, reply.body) == (404, b"12345")


async def test_a_paused_parser_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aiohttp resumes a parser by passing no data, after a long response arrived faster than it was read."""
    passed: list[bytes] = []
    monkeypatch.setattr(ResponseHandler, "data_received", lambda _, data: passed.append(data))
    handler = ResponseGuard(asyncio.get_running_loop())
    for data in (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"12345", b""):
        handler.data_received(data)
    assert passed[-2:] == [b"12345", b""]


@pytest.mark.parametrize(("lifetime", "connections"), [(math.inf, 1), (0.0, 3)])
async def test_a_connection_is_not_used_again_after_its_lifetime(
    monkeypatch: pytest.MonkeyPatch, lifetime: float, connections: int
) -> None:
    guard = functools.partial(install_guard, lifetime=lifetime)
    monkeypatch.setattr(http, "install_guard", lambda connector, _: guard(connector))
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, HttpTransport(f"http://127.0.0.1:{port}") as transport:
        for _ in range(3):
            assert (await transport.send("GET", "/", headers={})).body == b"{}"
    assert opened == connections
