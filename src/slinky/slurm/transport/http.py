# SPDX-License-Identifier: Apache-2.0
"""Bytes to and from slurmrestd over TCP, TLS or a unix socket, with a deadline on everything.

It knows HTTP and nothing of Slurm beyond the token header. Whatever fails on the way becomes a `Transport`
error that says whether the request may have been carried out. Nothing is retried here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from slinky.slurm.errors import Malformed, TransportError
from slinky.slurm.transport.decode import RawResponse
from slinky.slurm.transport.response_guard import guard

#: A full list of 10,000 running jobs is 101 MB compact and 267 MB pretty; beyond that something is wrong.
LARGEST = 512 * 1024 * 1024
#: slurmrestd works with a handful of threads; more connections only queue there.
CONNECTIONS = 8
CONNECT_DEADLINE = 5.0

Query = Sequence[tuple[str, str]]


class Exchange(NamedTuple):
    """One request as an observer sees it: for metrics, and for benchmarks that count bytes."""

    method: str
    path: str
    status: int | None
    seconds: float
    received: int


class HttpTransport:
    """A pool of connections to one slurmrestd."""

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        connections: int = CONNECTIONS,
        observe: Callable[[Exchange], None] | None = None,
    ) -> None:
        """`url` is `http://host:port`, `https://host:port` or `unix:/path/to/socket`."""
        self._socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        self.base = "http://slurmrestd" if self._socket else url.rstrip("/")
        self._tls = tls
        self._connections = connections
        self._observe = observe
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        query: Query = (),
        body: bytes | None = None,
        deadline: float = 30.0,
    ) -> RawResponse:
        """The answer, whatever its status. Raises `Transport` when there is none."""
        started = time.perf_counter()
        reply: RawResponse | None = None
        try:
            async with asyncio.timeout(deadline):
                reply = await self._exchange(method, path, headers, query, body)
            return reply
        except TimeoutError as error:
            raise TransportError(
                f"{method} {path}: no answer in {deadline:g} s", maybe_applied=method != "GET"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            said = str(error) or type(error).__name__
            raise TransportError(f"{method} {path}: {said}", maybe_applied=method != "GET") from error
        finally:
            if self._observe is not None:
                spent = time.perf_counter() - started
                status, size = (reply.status, len(reply.body)) if reply else (None, 0)
                self._observe(Exchange(method, path, status, spent, size))

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], query: Query, body: bytes | None
    ) -> RawResponse:
        url = URL(f"{self.base}{path}{'?' + urlencode(query) if query else ''}", encoded=True)
        sent = dict(headers)
        if body is not None:
            sent["Content-Type"] = "application/json"
        async with self._opened().request(method, url, headers=sent, data=body, allow_redirects=False) as got:
            # One growing buffer instead of a list of chunks and their sum: half the peak, no fragments.
            received = bytearray()
            async for chunk in got.content.iter_any():
                received += chunk
                if len(received) > LARGEST:
                    raise Malformed(f"{method} {path}: an answer without end")
            return RawResponse(got.status, got.content_type, received)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = self._tls or True
            connector: aiohttp.BaseConnector = (
                aiohttp.UnixConnector(self._socket, limit=self._connections)
                if self._socket
                else aiohttp.TCPConnector(limit=self._connections, ssl=tls)
            )
            self._session = aiohttp.ClientSession(
                connector=guard(connector),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_DEADLINE),
            )
        return self._session


def query_of(**values: str | int | None) -> Query:
    """A query string's parts, without those that are None."""
    return [(name, str(value)) for name, value in values.items() if value is not None]
