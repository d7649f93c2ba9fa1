# SPDX-License-Identifier: Apache-2.0
"""The proxy relays bytes unchanged, with TLS and without, and survives odd clients and servers."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from slinky.kube.certificates import CertificatePair, create_authority, create_serving_pair
from slinky.kube.tls import load_pair, server_context
from slinky.kube.types import Key
from slinky.observe import Health, ManualClock
from slinky.operator.slurm.clusters import Clusters, TlsServer
from slinky.slurm.errors import UntrustedServer
from slinky.slurm.transport.http import HttpTransport
from slinky.slurm.transport.request_transport import RequestTransport
from slinky.tlsproxy import proxy as proxy_module
from slinky.tlsproxy.app import CHECK_SECONDS, TlsProxyError, TlsProxySettings, main
from slinky.tlsproxy.proxy import CONNECTIONS, TlsProxy

NOW = datetime.now(UTC)
AUTHORITY = create_authority(NOW)
MEGABYTE = bytes(range(256)) * 4096

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def trusting(*authorities: CertificatePair) -> ssl.SSLContext:
    """A client that checks certificates as strictly as Python can."""
    context = ssl.create_default_context(cadata="".join(pair.certificate for pair in authorities))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def serving_context(signer: CertificatePair = AUTHORITY) -> ssl.SSLContext:
    pair = create_serving_pair(signer, ("slurm-restapi.slurm",), NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, pair.certificate.encode(), pair.key.encode())
    return context


async def echo_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with what was received, once the length in the first four bytes has arrived."""
    size = int.from_bytes(await reader.readexactly(4))
    writer.write(await reader.readexactly(size))
    await writer.drain()
    writer.close()


async def echo_until_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer when the client has finished sending."""
    writer.write(await reader.read())
    await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def upstream(serve: Serve = echo_all) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()


@contextlib.asynccontextmanager
async def proxied(serve: Serve = echo_all, *, required: bool = False) -> AsyncIterator[int]:
    async with (
        upstream(serve) as address,
        TlsProxy(address, serving_context(), required=required).serving("127.0.0.1", 0) as port,
    ):
        yield port


async def exchange(port: int, body: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    name = "slurm-restapi.slurm" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        writer.write(len(body).to_bytes(4) + body)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def counted(result: str) -> float:
    return next(
        (
            sample.value
            for metric in CONNECTIONS.collect()
            for sample in metric.samples
            if sample.name.endswith("_total") and sample.labels == {"result": result}
        ),
        0.0,
    )


@pytest.mark.parametrize("tls", [trusting(AUTHORITY), None], ids=["https", "http"])
@pytest.mark.parametrize("body", [b"x", MEGABYTE * 5], ids=["small", "large"])
async def test_bytes_pass_unchanged_in_both_directions(tls: ssl.SSLContext | None, body: bytes) -> None:
    async with proxied() as port:
        assert await exchange(port, body, tls) == body


async def test_many_connections_are_relayed_at_once() -> None:
    async with proxied() as port:
        bodies = [bytes([number]) * 10_000 for number in range(100)]
        assert await asyncio.gather(*(exchange(port, body, trusting(AUTHORITY)) for body in bodies)) == bodies


async def test_a_client_that_trusts_another_authority_gets_no_connection() -> None:
    async with proxied() as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await exchange(port, b"x", trusting(create_authority(NOW)))


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection, as slurmrestd does; the one for /last closes it."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        while request := await reader.readuntil(b"\r\n\r\n"):
            close = b"Connection: close\r\n" if b"/last" in request else b""
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n"
            writer.write(head + close + b"\r\n{}")
            await writer.drain()
    writer.close()


async def test_a_client_can_name_the_server_that_it_reaches_by_address() -> None:
    """The operator does this when it connects to pods instead of the Service."""
    server, received = TlsServer("slurm-restapi.slurm", AUTHORITY.certificate), bytearray()

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    token = {"X-SLURM-USER-TOKEN": "secret"}
    async with proxied(record, required=True) as port:
        url = f"https://127.0.0.1:{port}"
        stranger = trusting(create_authority(NOW))
        for tls, name in ((server.context(), "another.slurm"), (server.context(), None), (stranger, server.name)):
            async with HttpTransport(url, tls=tls, tls_name=name) as transport:
                with pytest.raises(UntrustedServer, match=r"(?i)certificate"):
                    await transport.send("GET", "/", headers=token)
        assert received == b"", "a token was sent to a server that is not trusted"
        async with HttpTransport(url, tls=server.context(), tls_name=server.name) as transport:
            assert (await transport.send("GET", "/", headers=token)).body == b"{}"
        assert b"secret" in received


async def test_the_operator_trusts_exactly_the_authorities_that_are_published() -> None:
    """It does so without a restart, also when an authority is withdrawn."""
    second, context = create_authority(NOW), serving_context()
    clusters, key, clients = Clusters(), Key("slurm", "slurm"), set()
    async with (
        upstream(answer_http) as address,
        TlsProxy(address, context, required=True).serving("127.0.0.1", 0) as port,
    ):

        async def connect(*authorities: CertificatePair, name: str = "slurm-restapi.slurm") -> RequestTransport:
            server = TlsServer(name, "".join(pair.certificate for pair in authorities))
            await clusters.connect(key, f"https://127.0.0.1:{port}", b"k", server)
            client = clusters.client(key)
            assert client is not None
            clients.add(client)
            return client.session.transport

        for authorities in ([AUTHORITY], [AUTHORITY, second], [second], [AUTHORITY]):
            for signer in (AUTHORITY, second):
                transport = await connect(*authorities)
                pair = create_serving_pair(signer, ("slurm-restapi.slurm",), NOW)
                load_pair(context, pair.certificate.encode(), pair.key.encode())
                assert await is_trusted(transport, "/last") == (signer in authorities)
        assert await is_trusted(await connect(second))
        assert not await is_trusted(await connect(AUTHORITY)), "a connection of the old authority is used again"
        assert len(clients) == 1
        await connect(AUTHORITY, name="another.slurm")
        assert len(clients) == 2
        await clusters.disconnect(key)


async def is_trusted(transport: RequestTransport, path: str = "/") -> bool:
    """Whether a request is sent to the server."""
    try:
        return (await transport.send("GET", path, headers={})).status == 200
    except UntrustedServer:
        return False


async def test_where_tls_is_required_a_client_without_it_reads_why() -> None:
    async with proxied(required=True) as port:
        answer = await exchange(port, b"GET / HTTP/1.1")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"https" in answer
        assert await exchange(port, b"x", trusting(AUTHORITY)) == b"x"


async def test_a_client_that_has_finished_sending_gets_its_answer() -> None:
    async with proxied(echo_until_end) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"question")
        writer.write_eof()
        assert await reader.read() == b"question"
        writer.close()


async def test_a_server_that_is_down_ends_the_connection_and_not_the_proxy() -> None:
    async with upstream() as address:
        pass
    failed = counted("failed")
    proxy = TlsProxy(address, serving_context(), required=False)
    async with proxy.serving("127.0.0.1", 0) as port:
        assert not await proxy.is_upstream_open()
        with contextlib.suppress(ConnectionError):
            assert await exchange(port, b"x") == b""
    assert counted("failed") == failed + 1


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01\xff\xff" + b"x" * 70_000], ids=["none", "one", "junk"])
async def test_a_client_that_sends_no_request_ends_alone(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "OPEN_SECONDS", 0.2)
    async with proxied() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        monkeypatch.undo()
        assert await exchange(port, b"x", trusting(AUTHORITY)) == b"x"


async def test_connections_beyond_the_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "CONNECTIONS_MAX", 2)
    async with proxied() as port:
        bodies = [bytes([number]) * 1000 for number in range(10)]
        assert await asyncio.gather(*(exchange(port, body) for body in bodies)) == bodies


def write_pair(folder: Path, signer: CertificatePair) -> None:
    pair = create_serving_pair(signer, ("slurm-restapi.slurm",), NOW)
    (folder / "tls.key").write_text(pair.key)
    (folder / "tls.crt").write_text(pair.certificate)


def settings(address: tuple[str, int], folder: Path) -> TlsProxySettings:
    return TlsProxySettings("127.0.0.1", 0, address, folder / "tls.crt", folder / "tls.key")


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    second = create_authority(NOW)
    write_pair(tmp_path, AUTHORITY)
    context, reload_certificate = server_context(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with (
        upstream() as address,
        TlsProxy(address, context, required=True).serving("127.0.0.1", 0) as port,
    ):
        assert await exchange(port, b"x", trusting(AUTHORITY)) == b"x"
        write_pair(tmp_path, second)
        reload_certificate()
        assert await exchange(port, b"x", trusting(AUTHORITY, second)) == b"x"
        assert await exchange(port, b"x", trusting(second)) == b"x"


async def test_the_process_is_ready_while_slurmrestd_accepts_connections(tmp_path: Path) -> None:
    write_pair(tmp_path, AUTHORITY)
    health, clock = Health(), ManualClock()
    async with upstream() as address:
        task = asyncio.create_task(main(settings(address, tmp_path), health, clock))
        await eventually(lambda: not health.readiness(), "readiness")

    async def is_unready() -> bool:
        await clock.advance(CHECK_SECONDS)
        return bool(health.readiness())

    await eventually(is_unready, "the end of the server to be noticed")
    assert "nothing accepts connections" in health.readiness()["upstream"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TlsProxyError, match=r"tls\.crt"):
        await main(settings(("127.0.0.1", 1), tmp_path), Health())
