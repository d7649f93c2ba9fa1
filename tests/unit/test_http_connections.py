# SPDX-License-Identifier: Apache-2.0
"""The connections of the command, against servers that behave well and badly."""

import asyncio
import contextlib
import http.client
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.stream_server import Serve, serving
from tests.support.waiting import eventually

from slinky.http_connections import ConnectError, HttpConnections, ResponseSizeError

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class ScriptedServer:
    """Sends the same bytes for every request, and counts connections."""

    def __init__(self, reply: bytes = OK, *, closes: bool = False) -> None:
        self.reply, self.closes = reply, closes
        self.opened = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        while True:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.reply)
            await writer.drain()
            if self.closes:
                break


@contextlib.asynccontextmanager
async def connected(serve: Serve, limit: int = 1000) -> AsyncIterator[HttpConnections]:
    async with serving(serve) as url:
        connections = HttpConnections(f"{url}/prefix/", connections=4, body_limit=limit)
        try:
            yield connections
        finally:
            connections.close()


async def test_reads_share_a_connection() -> None:
    server = ScriptedServer()
    async with connected(server.serve) as connections:
        for _ in range(3):
            reply = await connections.send("GET", "/jobs?a=b", headers={"X-Name": "value"})
            assert (reply.status, reply.headers["Content-Type"], reply.body) == (200, "application/json", b"{}")
    assert server.opened == 1
    assert server.requests[0].startswith(b"GET /prefix/jobs?a=b HTTP/1.1\r\n")
    assert b"X-Name: value\r\n" in server.requests[0]


async def test_a_write_opens_a_connection_because_it_could_not_be_repeated() -> None:
    server = ScriptedServer()
    async with connected(server.serve) as connections:
        for _ in range(2):
            await connections.send("DELETE", "/jobs/1", headers={})
    assert server.opened == 2


async def test_a_read_is_repeated_if_the_server_has_closed_the_idle_connection() -> None:
    server = ScriptedServer(closes=True)
    async with connected(server.serve) as connections:
        for _ in range(3):
            assert (await connections.send("GET", "/", headers={})).body == b"{}"
    assert server.opened == 3


async def test_requests_run_at_the_same_time() -> None:
    arrived = 0
    everyone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        await reader.readuntil(b"\r\n\r\n")
        arrived += 1
        if arrived == 4:
            everyone.set()
        await everyone.wait()
        writer.write(OK)

    async with connected(serve) as connections:
        replies = await asyncio.gather(*(connections.send("GET", "/", headers={}) for _ in range(4)))
    assert [reply.status for reply in replies] == [200] * 4


@pytest.mark.parametrize(
    ("reply", "status", "body"),
    [
        # After an error slurmrestd sends a second response.
        (b"HTTP/1.1 404 NO\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 500 X\r\n\r\n", 404, b"{}"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200, b"{}"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, b""),
        (b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", 302, b""),
    ],
    ids=["second response", "chunked", "not modified", "redirection"],
)  # fmt: skip
async def test_one_response_is_read(reply: bytes, status: int, body: bytes) -> None:
    async with connected(ScriptedServer(reply, closes=True).serve) as connections:
        answer = await connections.send("GET", "/", headers={})
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", http.client.IncompleteRead),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{}", ResponseSizeError),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, ResponseSizeError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000 + b"\r\n", ResponseSizeError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", http.client.IncompleteRead),
        (b"SSH-2.0-OpenSSH\r\n\r\n", http.client.BadStatusLine),
        (b"", ConnectionError),
    ],
    ids=["short", "large", "large without length", "large chunk", "no chunk", "not HTTP", "empty"],
)  # fmt: skip
async def test_a_broken_response_is_an_error(reply: bytes, error: type[Exception]) -> None:
    async with connected(ScriptedServer(reply, closes=True).serve) as connections:
        with pytest.raises(error):
            await connections.send("GET", "/", headers={})


@pytest.mark.parametrize("value", ["two\r\nlines", "snowman \u2603"])
async def test_a_header_cannot_contain_another_header(value: str) -> None:
    server = ScriptedServer()
    async with connected(server.serve) as connections:
        with pytest.raises(ValueError, match=r"Invalid header|latin-1"):
            await connections.send("GET", "/", headers={"X-SLURM-USER-TOKEN": value})
        await eventually(lambda: server.opened == 1, "the connection")
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("unix:/nowhere/socket", "/nowhere/socket: No such file or directory"),
    ],
)
async def test_a_server_that_is_not_there_is_named_with_the_cause(url: str, text: str) -> None:
    connections = HttpConnections(url, connections=1, body_limit=1000)
    with pytest.raises(ConnectError) as caught:
        await connections.send("GET", "/", headers={})
    connections.close()
    assert str(caught.value) == text


async def test_a_unix_socket_is_a_server_too(tmp_path: Path) -> None:
    async with serving(ScriptedServer().serve, path=tmp_path / "socket") as url:
        connections = HttpConnections(url, connections=1, body_limit=1000)
        assert (await connections.send("GET", "/", headers={})).body == b"{}"
        connections.close()


async def test_a_cancelled_request_ends_its_connection() -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        ended.set()

    async with connected(never_answer) as connections:
        request = asyncio.create_task(connections.send("GET", "/", headers={}))
        await arrived.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await ended.wait()
