# SPDX-License-Identifier: Apache-2.0
"""HTTP requests to one API server by aiohttp, for processes that send many and watch.

`AioTransport` adds the credentials to every request, uses rotated certificates, repeats a request once with a fresh
token after a 401, and raises `Unreachable` for every failure of the transport.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping

import aiohttp
from yarl import URL

import slinky
from slinky.kube.config import Access
from slinky.kube.errors import DeadlineExceeded, Unreachable, api_error
from slinky.kube.metrics import REQUESTS
from slinky.kube.tls import Pem, ReloadedOnChange, client_context
from slinky.kube.transport import NO_HEADERS, HttpResponse, Stream
from slinky.observe.descriptors import occupy_stale_descriptor

# Waking up the process costs several times as much CPU as handling one event. So small chunks of a watch that follow
# each other within BUSY_GAP seconds are read in batches: reading pauses for MIN_BATCH_DELAY seconds, and for up to
# MAX_BATCH_DELAY while more than DENSE_BYTES_PER_SECOND arrive. A single event and a chunk of at least BULK_BYTES are
# never delayed.
BUSY_GAP = 0.005
MIN_BATCH_DELAY = 0.01
MAX_BATCH_DELAY = 0.05
DENSE_BYTES_PER_SECOND = 2**20
BULK_BYTES = 2**18


class AioTransport:
    """The transport that uses aiohttp."""

    def __init__(self, access: Access, *, max_parallel: int = 64) -> None:
        self._access = access
        self._ssl_context: ReloadedOnChange[ssl.SSLContext] = client_context(
            access.ca, access.certificate, access.key, insecure=access.insecure
        )
        self._pair: tuple[Pem, Pem] | None = None
        # Each watch occupies a connection permanently, so the limit applies to requests and not to connections.
        self._slots = asyncio.Semaphore(max_parallel)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
            headers={"User-Agent": f"slinky/{slinky.__version__}", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=BULK_BYTES,
            trust_env=False,
        )

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
        limits = aiohttp.ClientTimeout(total=deadline)
        async with self._slots, self._response(method, path, headers, limits, body) as response:
            REQUESTS.labels(method, response.status).inc()
            return HttpResponse(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] = NO_HEADERS, deadline: float, idle: float
    ) -> AsyncIterator[Stream]:
        """GET `path`; `Unreachable` if no response starts within `deadline`, or no byte arrives for `idle` seconds."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=deadline, sock_read=idle)
        async with self._response("GET", path, headers, limits) as response:
            REQUESTS.labels("WATCH", response.status).inc()
            yield _AioStream(response)

    @contextlib.asynccontextmanager
    async def open_websocket(
        self, path: str, protocol: str, *, deadline: float
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket; `ApiError` if the server refuses it, `Unreachable` if there is no answer."""
        token = await self._access.tokens.token()
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        url = URL(self._access.server + path, encoded=True)
        with _translate_errors(f"GET {path}"):
            try:
                async with asyncio.timeout(deadline):
                    socket = await self._session.ws_connect(
                        url,
                        protocols=(protocol,),
                        headers=headers,
                        ssl=self._current_ssl_context(),
                        server_hostname=self._access.server_name,
                        max_msg_size=0,
                    )
            except aiohttp.WSServerHandshakeError as error:
                raise api_error(error.status, b"", f"GET {path}") from error
        async with socket:
            yield socket

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    @contextlib.asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        body: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with _translate_errors(f"{method} {path}"):
            response = await self._send(method, path, headers, limits, body)
            if response.status == 401:
                # The token may have been rotated: read it again, once.
                response.release()
                self._access.tokens.invalidate()
                response = await self._send(method, path, headers, limits, body)
            try:
                yield response
            finally:
                # A connection with an unread body cannot be used again.
                if response.content.is_eof():
                    response.release()
                else:
                    response.close()

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        if (token := await self._access.tokens.token()) is not None:
            headers = {**headers, "Authorization": f"Bearer {token}"}
        return await self._session.request(
            method,
            URL(self._access.server + path, encoded=True),
            data=body,
            headers=headers,
            timeout=limits,
            ssl=self._current_ssl_context(),
            server_hostname=self._access.server_name,
            allow_redirects=False,
        )

    def _current_ssl_context(self) -> ssl.SSLContext:
        if (pair := self._access.tokens.certificate()) != self._pair and pair is not None:
            self._pair = pair
            self._ssl_context = client_context(self._access.ca, *pair, insecure=self._access.insecure)
        return self._ssl_context.get()


class _AioStream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        content, clock = self._response.content, asyncio.get_running_loop().time
        last_read, delay = float("-inf"), 0.0
        while chunk := await content.readany():
            yield chunk
            delay = next_batch_delay(delay, clock() - last_read, len(chunk))
            if delay and len(chunk) < BULK_BYTES:
                await self._pause_reading(delay)
            last_read = clock()

    async def _pause_reading(self, seconds: float) -> None:
        """Let the kernel collect the bytes of a busy stream, so that many events cost one wake-up."""
        connection = self._response.connection
        socket = connection.transport if connection is not None else None
        if socket is None or socket.is_closing():
            return  # the response has ended; its remaining bytes are in the buffer already
        socket.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not socket.is_closing():
                socket.resume_reading()


def next_batch_delay(previous: float, gap: float, size: int) -> float:
    """Seconds to pause reading a stream that delivered `size` bytes `gap` seconds after its `previous` pause."""
    if gap >= BUSY_GAP:
        return 0.0
    delay = previous * 2 if size >= DENSE_BYTES_PER_SECOND * previous else previous / 2
    return min(max(MIN_BATCH_DELAY, delay), MAX_BATCH_DELAY)


@contextlib.contextmanager
def _translate_errors(request: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded(f"{request}: no response in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{request}: {str(error) or type(error).__name__}") from error
    except RuntimeError as error:
        if not occupy_stale_descriptor(error):
            raise
        raise Unreachable(f"{request}: {error}") from error
