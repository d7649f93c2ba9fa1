# SPDX-License-Identifier: Apache-2.0
"""A transport that plays a script, for faults no server produces on demand."""

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
    """Answers requests from `requests` and streams from `streams`, in order; remembers what was asked."""

    def __init__(self, requests: list[Any] | None = None, streams: list[Any] | None = None) -> None:
        self.requests, self.streams = requests or [], streams or []
        self.asked: list[tuple[str, str, bytes | None]] = []
        self.closed = False

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Any = None, deadline: float
    ) -> HttpResponse:
        self.asked.append((method, path, body))
        found = self.requests.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, HttpResponse)
        return found

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, headers: Any = None, deadline: float, idle: float) -> AsyncIterator[Stream]:
        self.asked.append(("WATCH", path, None))
        if not self.streams:
            raise Unreachable("the script is over")
        found = self.streams.pop(0)
        if isinstance(found, Exception):
            raise found
        yield found

    async def close(self) -> None:
        self.closed = True
