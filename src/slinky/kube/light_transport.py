# SPDX-License-Identifier: Apache-2.0
"""Requests of a command to one API server without aiohttp, which takes longer to import than a command to run.

Only a stream (the logs of a pod) or a WebSocket (a command in a pod) needs aiohttp: it is imported then.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING

import slinky
from slinky.http_connections import HttpConnections, HttpReply, ResponseSizeError
from slinky.kube.config import Access
from slinky.kube.errors import DeadlineExceeded, Unreachable
from slinky.kube.tls import Pem, ReloadedOnChange, client_context
from slinky.kube.transport import NO_HEADERS, HttpResponse, Stream

if TYPE_CHECKING:
    import aiohttp

    from slinky.kube.aio_transport import AioTransport

CONNECTIONS = 16
#: Bytes of a response at most; a page of a list has at most 500 objects.
BODY_LIMIT = 2**30


class LightTransport:
    """The transport of a command; a `Transport`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connections = HttpConnections(
            access.server, connections=CONNECTIONS, body_limit=BODY_LIMIT, tls_name=access.server_name
        )
        self._ssl_context: ReloadedOnChange[ssl.SSLContext] | None = None
        self._pair: tuple[Pem, Pem] | None = None
        self._streams: AioTransport | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        deadline: float,
    ) -> HttpResponse:
        """Send one request and read the whole response; `Unreachable` if that fails."""
        try:
            async with asyncio.timeout(deadline):
                reply = await self._send(method, path, body, headers)
                if reply.status == 401:
                    # The token may have been rotated: read it again, once.
                    self._access.tokens.invalidate()
                    reply = await self._send(method, path, body, headers)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{method} {path}: no response in time") from error
        except (OSError, ValueError, HTTPException, ResponseSizeError) as error:
            raise Unreachable(f"{method} {path}: {str(error) or type(error).__name__}") from error
        return HttpResponse(reply.status, reply.headers, reply.body)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] = NO_HEADERS, deadline: float, idle: float
    ) -> AsyncIterator[Stream]:
        """GET `path`; `Unreachable` if no response starts within `deadline`, or no byte arrives for `idle` seconds."""
        async with self._open_streams().stream(path, headers=headers, deadline=deadline, idle=idle) as stream:
            yield stream

    @contextlib.asynccontextmanager
    async def open_websocket(
        self, path: str, protocol: str, *, deadline: float
    ) -> AsyncIterator["aiohttp.ClientWebSocketResponse"]:
        """Open a WebSocket; `ApiError` if the server refuses it, `Unreachable` if there is no answer."""
        async with self._open_streams().open_websocket(path, protocol, deadline=deadline) as socket:
            yield socket

    async def close(self) -> None:
        """Close all connections."""
        self._connections.close()
        if self._streams is not None:
            await self._streams.close()

    async def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HttpReply:
        headers = {**headers, "User-Agent": f"slinky/{slinky.__version__}"}
        if (token := await self._access.tokens.token()) is not None:
            headers["Authorization"] = f"Bearer {token}"
        return await self._connections.send(method, path, headers=headers, body=body, tls=self._current_ssl_context())

    def _current_ssl_context(self) -> ssl.SSLContext | None:
        if not self._connections.secure:
            return None
        pair, access = self._access.tokens.certificate(), self._access
        if self._ssl_context is None or (pair is not None and pair != self._pair):
            self._pair = pair
            certificate, key = pair or (access.certificate, access.key)
            self._ssl_context = client_context(access.ca, certificate, key, insecure=access.insecure)
        return self._ssl_context.get()

    def _open_streams(self) -> "AioTransport":
        if self._streams is None:
            from slinky.kube.aio_transport import AioTransport

            self._streams = AioTransport(self._access)
        return self._streams
