# SPDX-License-Identifier: Apache-2.0
"""What the client and the watches need of an HTTP client: the protocol `Transport`, which each client implements."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

NO_HEADERS: Mapping[str, str] = {}


class HttpResponse(NamedTuple):
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A response whose body arrives over time."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """Read the rest of the body."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the body as they arrive; `Unreachable` if the connection breaks before the end."""


class Transport(Protocol):
    """Sends requests to one server."""

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

    def stream(
        self, path: str, *, headers: Mapping[str, str] = NO_HEADERS, deadline: float, idle: float
    ) -> AbstractAsyncContextManager[Stream]:
        """GET `path`; `Unreachable` if no response starts within `deadline`, or no byte arrives for `idle` seconds."""

    async def close(self) -> None:
        """Close all connections."""
