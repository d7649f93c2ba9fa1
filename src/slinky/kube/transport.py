# SPDX-License-Identifier: Apache-2.0
"""Bytes to and from one API server.

`Transport` is the seam: verbs and watches know only it, so another HTTP library is one small class away.
`AioTransport` adds credentials to every request, follows rotated certificates, asks once more with a fresh
token after a 401, and turns every transport failure into `Unreachable`.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import aiohttp
from yarl import URL

import slinky
from slinky.kube.config import Access
from slinky.kube.errors import DeadlineExceeded, Unreachable
from slinky.kube.tls import Pem, ReloadedOnChange, client_context

# A wake-up of the process costs several times what an event costs. Small chunks that follow one another within BUSY
# seconds are let gather for GATHER seconds, and longer, up to LONGEST, as long as more than DENSE bytes a second come;
# a lone event is never held up, a bulk transfer neither.
BUSY = 0.005
GATHER = 0.01
LONGEST = 0.05
DENSE = 2**20
BULK = 2**18

_NO_HEADERS: Mapping[str, str] = {}


class HttpResponse(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer whose body arrives over time."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The rest of the body."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; ends when the server ends it, raises `Unreachable` when it is cut."""


class Transport(Protocol):
    """Carries requests to one server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        deadline: float,
    ) -> HttpResponse:
        """Send one request and read the whole answer, or raise `Unreachable`."""

    def stream(
        self, path: str, *, headers: Mapping[str, str] = _NO_HEADERS, deadline: float, idle: float
    ) -> AbstractAsyncContextManager[Stream]:
        """GET `path`: an answer within `deadline`, then never `idle` seconds of silence."""

    async def close(self) -> None:
        """Give back every connection."""


class AioTransport:
    """The transport on aiohttp."""

    def __init__(self, access: Access, *, parallel: int = 64) -> None:
        self._access = access
        self._trust: ReloadedOnChange[ssl.SSLContext] = client_context(
            access.ca, access.certificate, access.key, insecure=access.insecure
        )
        self._pair: tuple[Pem, Pem] | None = None
        # Watches hold a connection each, for ever: the limit is on requests, never on connections.
        self._turn = asyncio.Semaphore(parallel)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
            headers={"User-Agent": f"slinky/{slinky.__version__}", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=BULK,
            trust_env=False,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        deadline: float,
    ) -> HttpResponse:
        """Send one request and read the whole answer, or raise `Unreachable`."""
        limits = aiohttp.ClientTimeout(total=deadline)
        async with self._turn, self._answered(method, path, headers, limits, body) as response:
            return HttpResponse(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] = _NO_HEADERS, deadline: float, idle: float
    ) -> AsyncIterator[Stream]:
        """GET `path`: an answer within `deadline`, then never `idle` seconds of silence."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=deadline, sock_read=idle)
        async with self._answered("GET", path, headers, limits) as response:
            yield _AioStream(response)

    async def close(self) -> None:
        """Give back every connection."""
        await self._session.close()

    @contextlib.asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        body: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with _translated(f"{method} {path}"):
            response = await self._send(method, path, headers, limits, body)
            if response.status == 401:
                # Tokens rotate: what was good a second ago may need one more look at its source.
                response.release()
                self._access.tokens.refuse()
                response = await self._send(method, path, headers, limits, body)
            try:
                yield response
            finally:
                # A body that was not read to its end closes its connection: no leftovers for the next
                # request.
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
            ssl=self._context(),
            server_hostname=self._access.server_name,
            allow_redirects=False,
        )

    def _context(self) -> ssl.SSLContext:
        if (pair := self._access.tokens.certificate()) != self._pair and pair is not None:
            self._pair = pair
            self._trust = client_context(self._access.ca, *pair, insecure=self._access.insecure)
        return self._trust.get()


class _AioStream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        content, clock = self._response.content, asyncio.get_running_loop().time
        last, pause = float("-inf"), 0.0
        while chunk := await content.readany():
            yield chunk
            pause = next_batch_delay(pause, clock() - last, len(chunk))
            if pause and len(chunk) < BULK:
                await self._gather(pause)
            last = clock()

    async def _gather(self, seconds: float) -> None:
        """Leave a busy stream to the kernel for a moment: one wake-up for many events, not one for each."""
        connection = self._response.connection
        socket = connection.transport if connection is not None else None
        if socket is None or socket.is_closing():
            return  # the answer has ended; what remains is in our own buffer
        socket.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not socket.is_closing():
                socket.resume_reading()


def next_batch_delay(before: float, gap: float, size: int) -> float:
    """For how long to let a stream gather that brought so many bytes, so many seconds after it gathered `before`."""
    if gap >= BUSY:
        return 0.0
    return min(max(GATHER, before * 2 if size >= DENSE * before else before / 2), LONGEST)


@contextlib.contextmanager
def _translated(request: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded(f"{request}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{request}: {str(error) or type(error).__name__}") from error
