# SPDX-License-Identifier: Apache-2.0
"""A guard between the socket and aiohttp's parser, for one habit of slurmrestd.

After every error answer (which announces `Connection: Close`) slurmrestd 26.05 sends a second, shorter
answer on the same connection. A strict parser rightly calls that a protocol error and loses the first one.
`OneAnswer` lets exactly the announced bytes of a closing answer through and drops what follows; answers
that keep the connection are untouched.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
from typing import Any

from aiohttp import BaseConnector
from aiohttp.client_proto import ResponseHandler

_CLOSES = re.compile(rb"^connection:[ \t]*close[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_LONGEST_HEAD = 64 * 1024


class ResponseGuard(ResponseHandler):
    """aiohttp's own handler, shown at most one answer per request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._head = b""
        self._left: float | None = None

    def set_response_params(self, **settings: Any) -> None:
        """A new request is on its way: expect a new head."""
        self._head, self._left = b"", None
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        """Pass on what belongs to the first answer."""
        if self._left is None:
            self._head += data
            self._left = remaining(self._head)
            if self._left is not None:
                # The head may have come in pieces of which earlier ones were passed on already.
                self._left += len(data)
                self._head = b""
        # No data at all is aiohttp's own word to a parser that has paused: it must get there.
        if data and self._left is not None:
            data = data if len(data) <= self._left else data[: int(self._left)]
            self._left -= len(data)
            if not data:
                return
        super().data_received(data)


def remaining(head: bytes) -> float | None:
    """How many more bytes of this answer are due, negative if there are too many; None before its head is
    complete.

    An answer that does not close, or does not say how long it is, has no end that we could enforce.
    """
    end = head.find(b"\r\n\r\n")
    if end < 0:
        return None if len(head) < _LONGEST_HEAD else math.inf
    length = _LENGTH.search(head, 0, end + 2)
    if length is None or not _CLOSES.search(head, 0, end + 2):
        return math.inf
    return end + 4 + int(length[1]) - len(head)


def guard(connector: BaseConnector) -> BaseConnector:
    """Make a connector use `OneAnswer`; aiohttp has no public way to choose the handler."""
    handler: type[ResponseHandler] = ResponseGuard
    connector._factory = functools.partial(handler, loop=asyncio.get_running_loop())
    return connector
