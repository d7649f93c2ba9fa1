# SPDX-License-Identifier: Apache-2.0
"""The transport of a command sends the credentials, renews a refused token once, and streams by aiohttp."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest
from tests.support.stream_server import serving
from tests.unit.kube.pki import self_signed

from slinky.kube.auth import NoToken
from slinky.kube.config import Access
from slinky.kube.errors import DeadlineExceeded, Unreachable
from slinky.kube.light_transport import LightTransport
from slinky.kube.tls import Pem, load_pair

OK = b"HTTP/1.1 200 OK\r\nretry-after: 3\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


class RotatedToken(NoToken):
    """A token that changes when the server refuses it."""

    def __init__(self) -> None:
        self.number = 0

    async def token(self) -> str | None:
        return f"token-{self.number}"

    def invalidate(self) -> None:
        self.number += 1


@contextlib.asynccontextmanager
async def answering(*replies: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that sends these replies in turn, the last one again and again; its address, and its requests."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            requests.append(head)
            reply = replies[min(len(requests), len(replies)) - 1]
            writer.write(reply)
            await writer.drain()
            if not reply:
                await reader.read()

    async with serving(serve, tls=tls) as url:
        yield url, requests


async def test_a_refused_token_is_renewed_once() -> None:
    async with answering(REFUSED, OK) as (url, requests):
        transport = LightTransport(Access(url, RotatedToken()))
        response = await transport.request("GET", "/api", deadline=10)
        await transport.close()
    assert (response.status, response.headers.get("Retry-After"), response.body) == (200, "3", b"{}")
    assert [b"Bearer token-0\r\n" in requests[0], b"Bearer token-1\r\n" in requests[1]] == [True, True]


async def test_a_token_that_is_refused_again_is_the_answer() -> None:
    async with answering(REFUSED) as (url, requests):
        transport = LightTransport(Access(url, RotatedToken()))
        assert (await transport.request("GET", "/api", deadline=10)).status == 401
        await transport.close()
    assert len(requests) == 2


async def test_no_answer_in_time_is_an_error() -> None:
    async with answering(b"") as (url, _):
        transport = LightTransport(Access(url, NoToken()))
        with pytest.raises(DeadlineExceeded, match="GET /api: no response in time"):
            await transport.request("GET", "/api", deadline=0.2)
        await transport.close()


async def test_a_server_that_is_not_there_is_named() -> None:
    transport = LightTransport(Access("https://127.0.0.1:1", NoToken()))
    with pytest.raises(Unreachable, match=r"GET /api: 127\.0\.0\.1:1: Connection refused"):
        await transport.request("GET", "/api", deadline=10)
    await transport.close()


async def test_only_a_trusted_server_gets_requests() -> None:
    certificate, key = self_signed("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, certificate, key)
    async with answering(OK, tls=context) as (url, requests):
        stranger = LightTransport(Access(url, NoToken(), ca=Pem(data=self_signed("stranger")[0])))
        with pytest.raises(Unreachable, match=r"(?i)certificate"):
            await stranger.request("GET", "/api", deadline=10)
        await stranger.close()
        assert requests == []
        transport = LightTransport(Access(url, NoToken(), ca=Pem(data=certificate)))
        assert (await transport.request("GET", "/api", deadline=10)).body == b"{}"
        async with transport.stream("/api/logs", deadline=10, idle=10) as stream:
            assert [chunk async for chunk in stream.chunks()] == [b"{}"]
        await transport.close()
