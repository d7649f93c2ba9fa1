# SPDX-License-Identifier: Apache-2.0
"""Drops the second response that slurmrestd sends after an error, and ends connections that are too old.

After every error response (which announces `Connection: Close`) slurmrestd 26.05 sends a second, shorter response on
the same connection. A strict parser reports a protocol error and loses the first response. `ResponseGuard` passes on
exactly the announced bytes of a closing response and drops the rest. It does not touch responses that keep the
connection open.

A server is verified when a connection is opened. Polling would keep one connection open for ever, so that another
certificate of the server went unnoticed; a connection with a lifetime is closed after the first response beyond it.
"""

import asyncio
import functools
import math
import re
from typing import Any, cast

from aiohttp import BaseConnector
from aiohttp.client_proto import ResponseHandler

_CLOSES = re.compile(rb"^connection:[ \t]*close[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_MAX_HEAD_BYTES = 64 * 1024


class ResponseGuard(ResponseHandler):
    """aiohttp's response handler, which receives at most one response per request, and none after its lifetime."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lifetime: float = math.inf) -> None:
        super().__init__(loop)
        self._head = b""
        self._remaining: float | None = None
        self._expires_at = loop.time() + lifetime

    @property
    def should_close(self) -> bool:
        """Whether the connection is closed when its response has been read, instead of being used again."""
        return super().should_close or self._loop.time() > self._expires_at

    def set_response_params(self, **settings: Any) -> None:
        """Expect a new response head, since a new request is being sent."""
        self._head, self._remaining = b"", None
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        """Pass on the bytes that belong to the first response."""
        if self._remaining is None:
            self._head += data
            self._remaining = remaining_bytes(self._head)
            if self._remaining is not None:
                # The head may have arrived in pieces; the earlier ones were already passed on.
                self._remaining += len(data)
                self._head = b""
        # aiohttp calls this with empty data to resume a paused parser: pass that on.
        if data and self._remaining is not None:
            data = data if len(data) <= self._remaining else data[: int(self._remaining)]
            self._remaining -= len(data)
            if not data:
                return
        super().data_received(data)


def remaining_bytes(head: bytes) -> float | None:
    """How many more bytes belong to this response, negative if there are too many; None until the head is complete.

    Infinite for a response that does not close the connection or does not announce its length.
    """
    end = head.find(b"\r\n\r\n")
    if end < 0:
        return None if len(head) < _MAX_HEAD_BYTES else math.inf
    length = _LENGTH.search(head, 0, end + 2)
    if length is None or not _CLOSES.search(head, 0, end + 2):
        return math.inf
    return end + 4 + int(length[1]) - len(head)


def install_guard(connector: BaseConnector, lifetime: float = math.inf) -> BaseConnector:
    """Make a connector use `ResponseGuard`; aiohttp has no public way to choose the handler."""
    create = functools.partial(ResponseGuard, loop=asyncio.get_running_loop(), lifetime=lifetime)
    connector._factory = cast("functools.partial[ResponseHandler]", create)
    return connector
