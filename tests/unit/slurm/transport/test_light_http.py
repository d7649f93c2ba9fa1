# SPDX-License-Identifier: Apache-2.0
"""The transport of a command reports failures of slurmrestd as that of a process does."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.support.stream_server import serving

from slinky.kube.certificates import create_authority, create_serving_pair
from slinky.kube.tls import load_pair
from slinky.slurm.errors import Malformed, TransportError, UntrustedServer
from slinky.slurm.transport import light_http
from slinky.slurm.transport.light_http import LightHttpTransport

NOW = datetime.now(UTC)
AUTHORITY = create_authority(NOW)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}"


def trusting(certificate: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate)


@contextlib.asynccontextmanager
async def answering(reply: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers every request with `reply`; its address, and the requests that it got."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            requests.append(head)
            writer.write(reply)
            await writer.drain()
            if not reply:
                await reader.read()

    async with serving(serve, tls=tls) as url:
        yield url, requests


async def test_a_response_has_its_status_type_and_body() -> None:
    async with answering(OK) as (url, requests):
        transport = LightHttpTransport(url)
        reply = await transport.send("POST", "/job", headers={"Accept": "x"}, query=[("a", "b c")], body=b"[]")
        await transport.close()
    assert (reply.status, reply.content_type, reply.body, reply.json) == (200, "application/json", b"{}", True)
    assert requests[0].startswith(b"POST /job?a=b+c HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\n" in requests[0]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_request_without_an_answer_may_have_been_applied_if_it_writes(method: str) -> None:
    async with answering(b"") as (url, _):
        transport = LightHttpTransport(url)
        with pytest.raises(TransportError, match=f"{method} /job/1: no response within 0.2 s") as caught:
            await transport.send(method, "/job/1", headers={}, deadline=0.2)
        await transport.close()
    assert caught.value.maybe_applied == (method != "GET")


async def test_a_refused_connection_applied_nothing() -> None:
    transport = LightHttpTransport("http://127.0.0.1:1")
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:1: Connection refused") as caught:
        await transport.send("DELETE", "/job/1", headers={})
    await transport.close()
    assert not caught.value.maybe_applied


async def test_a_response_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_http, "RESPONSE_BYTES_MAX", 1)
    async with answering(OK) as (url, _):
        transport = LightHttpTransport(url)
        with pytest.raises(Malformed, match="larger than 1 bytes"):
            await transport.send("GET", "/jobs", headers={})
        await transport.close()


async def test_a_server_that_is_not_trusted_gets_no_token() -> None:
    pair = create_serving_pair(AUTHORITY, ("127.0.0.1",), NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, pair.certificate.encode(), pair.key.encode())
    token = {"X-SLURM-USER-TOKEN": "secret"}
    async with answering(OK, context) as (url, requests):
        for tls in (None, trusting(create_authority(NOW).certificate)):
            stranger = LightHttpTransport(url, tls=tls)
            with pytest.raises(UntrustedServer, match=r"(?i)certificate"):
                await stranger.send("GET", "/", headers=token)
            await stranger.close()
        assert requests == []
        transport = LightHttpTransport(url, tls=trusting(AUTHORITY.certificate))
        assert (await transport.send("GET", "/", headers=token)).body == b"{}"
        await transport.close()
