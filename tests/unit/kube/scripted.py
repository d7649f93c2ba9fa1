# SPDX-License-Identifier: Apache-2.0
"""A transport with scripted responses, for faults that no server produces on demand."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from slinky.kube.errors import Unreachable
from slinky.kube.transport import HttpResponse, Stream

Script = Callable[[str, str, bytes | None], Any]
CUT = object()
"""In a script of chunks: the connection breaks here."""


def answer(status: int, body: Any, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, named, body if isinstance(body, bytes) else msgspec.json.encode(body))


class Chunks:
    def __init__(self, chunks: list[Any], status: int = 200) -> None:
        self._chunks, self.status = chunks, status
        self.headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        return b"".join(self._chunks)

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if chunk is CUT:
                raise Unreachable("cut")
            yield chunk


class Scripted:
    """Returns the given responses and streams in order, and records the requests."""

    def __init__(self, responses: list[Any] | None = None, streams: list[Any] | None = None) -> None:
        self.responses, self.streams = responses or [], streams or []
        self.sent: list[tuple[str, str, bytes | None]] = []
        self.closed = False

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Any = None, deadline: float
    ) -> HttpResponse:
        self.sent.append((method, path, body))
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        assert isinstance(response, HttpResponse)
        return response

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, headers: Any = None, deadline: float, idle: float) -> AsyncIterator[Stream]:
        self.sent.append(("WATCH", path, None))
        if not self.streams:
            raise Unreachable("the script has ended")
        stream = self.streams.pop(0)
        if isinstance(stream, Exception):
            raise stream
        yield stream

    async def close(self) -> None:
        self.closed = True
