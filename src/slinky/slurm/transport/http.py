# SPDX-License-Identifier: Apache-2.0
"""Sends HTTP requests to slurmrestd over TCP, TLS or a unix socket, each with a deadline.

This module knows HTTP and nothing of Slurm. Every failure becomes a `TransportError`, which says whether the request
may have been applied. Nothing is retried here.
"""

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from slinky.bounds import RESPONSE_BYTES_MAX
from slinky.observe.descriptors import occupy_stale_descriptor
from slinky.slurm.errors import Malformed, TransportError, UntrustedServer
from slinky.slurm.transport.decode import RawResponse
from slinky.slurm.transport.request_transport import CONNECTIONS, Query, RequestRecord, TlsContext
from slinky.slurm.transport.response_guard import install_guard

CONNECT_DEADLINE = 5.0
#: Seconds after which a TLS connection is not used again, so that the server is verified again.
TLS_CONNECTION_SECONDS = 15.0


class HttpTransport:
    """A pool of connections to one slurmrestd."""

    def __init__(
        self,
        url: str,
        *,
        tls: TlsContext | None = None,
        tls_name: str | None = None,
        connections: int = CONNECTIONS,
        observe: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        """`url` is `http://host:port`, `https://host:port` or `unix:/path/to/socket`.

        The certificate of the server must be for `tls_name`, by default for the host of the URL.
        """
        self._socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        self.base = "http://slurmrestd" if self._socket else url.rstrip("/")
        self._tls, self._tls_name = tls, tls_name
        self._connections = connections
        self._observe = observe
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; later requests raise `TransportError`, so that none is opened again."""
        self._closed = True
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
        """Send a request and return the response, whatever its status. Raises `TransportError` if there is none."""
        if self._closed:
            raise TransportError(f"{method} {path}: the client is closed")
        started = time.perf_counter()
        response: RawResponse | None = None
        try:
            async with asyncio.timeout(deadline):
                response = await self._request(method, path, headers, query, body)
            return response
        except TimeoutError as error:
            raise TransportError(
                f"{method} {path}: no response within {deadline:g} s", maybe_applied=method != "GET"
            ) from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise UntrustedServer(f"{method} {path}: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            raise TransportError(f"{method} {path}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise TransportError(f"{method} {path}: {reason}", maybe_applied=method != "GET") from error
        except RuntimeError as error:
            if not occupy_stale_descriptor(error):
                raise
            raise TransportError(f"{method} {path}: {error}") from error  # there was no connection
        finally:
            if self._observe is not None:
                seconds = time.perf_counter() - started
                status, size = (response.status, len(response.body)) if response else (None, 0)
                self._observe(RequestRecord(method, path, status, seconds, size))

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], query: Query, body: bytes | None
    ) -> RawResponse:
        url = URL(f"{self.base}{path}{'?' + urlencode(query) if query else ''}", encoded=True)
        all_headers = dict(headers)
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        async with self._open_session().request(
            method,
            url,
            headers=all_headers,
            data=body,
            allow_redirects=False,
            ssl=self._current_tls(),
            server_hostname=self._tls_name,
        ) as response:
            # One growing buffer needs half the peak memory of a list of chunks that is joined at the end.
            received = bytearray()
            async for chunk in response.content.iter_any():
                received += chunk
                if len(received) > RESPONSE_BYTES_MAX:
                    raise Malformed(f"{method} {path}: the response is larger than {RESPONSE_BYTES_MAX} bytes")
            location = response.headers.get("Location", "")
            return RawResponse(response.status, response.content_type, received, location)

    def _current_tls(self) -> ssl.SSLContext | bool:
        tls = self._tls() if callable(self._tls) else self._tls
        return True if tls is None else tls

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector: aiohttp.BaseConnector = (
                aiohttp.UnixConnector(self._socket, limit=self._connections)
                if self._socket
                else aiohttp.TCPConnector(limit=self._connections)
            )
            self._session = aiohttp.ClientSession(
                connector=install_guard(
                    connector, TLS_CONNECTION_SECONDS if self.base.startswith("https:") else math.inf
                ),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_DEADLINE),
            )
        return self._session
