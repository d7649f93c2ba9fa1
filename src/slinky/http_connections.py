# SPDX-License-Identifier: Apache-2.0
"""HTTP connections of the command, by `http.client` of the standard library in threads.

The server processes use aiohttp, whose import takes as much CPU time as the command has for its whole start (see
docs/decisions/0020-light-transport.md). A verb sends a dozen requests, reads each response as a whole, and needs
neither cookies nor redirects nor compression.
"""

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

#: Seconds after which an attempt to connect has failed, for each address of the server.
CONNECT_DEADLINE = 5.0
#: Seconds after which a connection is not used again, so that a TLS server is verified again.
CONNECTION_SECONDS = 15.0


class ConnectError(OSError):
    """No connection could be opened, so nothing was sent."""


class ResponseSizeError(Exception):
    """The body of a response is larger than the limit."""


class HttpReply(NamedTuple):
    """A complete response. The names of headers are spelled as `Content-Type`."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnections:
    """Connections to one server, which are used again while the server keeps them open."""

    def __init__(self, url: str, *, connections: int, body_limit: int, tls_name: str | None = None) -> None:
        """`url` is `http://host:port`, `https://host:port/prefix` or `unix:/path`.

        The certificate of the server must be for `tls_name`, by default for the host of the URL.
        """
        self._socket = url.removeprefix("unix:") if url.startswith("unix:") else ""
        parts = urlsplit("http://localhost" if self._socket else url)
        self.secure = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or (443 if self.secure else 80)
        self._tls_name = tls_name or self._host
        self._body_limit = body_limit
        self._idle: list[HttpConnection] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="http")

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> HttpReply:
        """Send a request, over TLS with the context `tls`; a cancelled request ends its connection.

        Raises `ConnectError` or `ssl.SSLCertVerificationError` if nothing was sent, else `OSError`, `ValueError`,
        `http.client.HTTPException` or `ResponseSizeError`.
        """
        exchange = HttpExchange(method, self._prefix + path, headers, body)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, exchange, tls)
        except asyncio.CancelledError:
            exchange.abort()
            raise

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _run(self, exchange: "HttpExchange", tls: ssl.SSLContext | None) -> HttpReply:
        # A server may close an idle connection at any moment. A read can be repeated, a write may have been applied.
        if exchange.method == "GET" and (used := self._take(tls)) is not None:
            with contextlib.suppress(ConnectionError):
                return self._exchange(used, exchange)
        connection = HttpConnection(self._host, self._port, self._socket, tls, self._tls_name)
        try:
            exchange.connect(connection)
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            raise ConnectError(f"{self._socket or f'{self._host}:{self._port}'}: {_reason(error)}") from error
        return self._exchange(connection, exchange)

    def _take(self, tls: ssl.SSLContext | None) -> "HttpConnection | None":
        oldest = time.monotonic() - CONNECTION_SECONDS
        with self._lock:
            found = next((item for item in self._idle if item.tls is tls and item.opened_at > oldest), None)
            if found is not None:
                self._idle.remove(found)
        return found

    def _exchange(self, connection: "HttpConnection", exchange: "HttpExchange") -> HttpReply:
        reply = None
        try:
            reply, is_reusable = exchange.run(connection, self._body_limit)
        finally:
            if reply is None or not is_reusable:
                connection.close()
        if is_reusable:
            with self._lock:
                self._idle.append(connection)
        return reply


class HttpConnection(http.client.HTTPConnection):
    """A connection over TCP, TLS or a unix socket."""

    def __init__(self, host: str, port: int, path: str, tls: ssl.SSLContext | None, tls_name: str) -> None:
        super().__init__(host, port)
        self.tls = tls
        self.opened_at = time.monotonic()
        self._path, self._tls_name = path, tls_name

    def connect(self) -> None:
        """Open the connection, and verify a TLS server."""
        if self._path:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self._path)
            return
        self.sock = socket.create_connection((self.host, self.port), CONNECT_DEADLINE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            self.sock = self.tls.wrap_socket(self.sock, server_hostname=self._tls_name)
        # From here on the caller has a deadline, and aborts the request.
        self.sock.settimeout(None)


class HttpExchange:
    """One request and its response; another thread can abort it."""

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> None:
        self.method, self._target, self._headers, self._body = method, target, headers, body
        self._connection: HttpConnection | None = None
        self._aborted = False

    def connect(self, connection: HttpConnection) -> None:
        """Open a connection."""
        self._connection = connection
        try:
            connection.connect()
        except OSError:
            connection.close()
            raise

    def run(self, connection: HttpConnection, body_limit: int) -> tuple[HttpReply, bool]:
        """The response, and whether the connection can be used again."""
        self._connection = connection
        if self._aborted:
            raise ConnectionAbortedError("the request was aborted")
        connection.request(self.method, self._target, self._body, dict(self._headers))
        with connection.getresponse() as response:
            if response.length is not None and response.length > body_limit:
                raise ResponseSizeError(f"the response is larger than {body_limit} bytes")
            # Without an amount, a body that is shorter than announced is an error.
            body = response.read() if response.length is not None else response.read(body_limit + 1)
            if len(body) > body_limit:
                raise ResponseSizeError(f"the response is larger than {body_limit} bytes")
            # slurmrestd may send a second response after any that is not a success.
            is_reusable = response.status == 200 and not response.will_close
            headers = {name.title(): value for name, value in response.headers.items()}
            return HttpReply(response.status, headers, body), is_reusable

    def abort(self) -> None:
        """End the connection, so that the thread does not wait for the server any longer."""
        self._aborted = True
        sock = self._connection.sock if self._connection else None
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of an SSL socket, which must not be used by two threads.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_DEADLINE:g} s"
    return error.strerror or str(error) or type(error).__name__
