# SPDX-License-Identifier: Apache-2.0
"""Splits a stream of chunks into lines.

A chunk may end inside a line, and a line may span many chunks. A last line without a newline was cut off, so it is
never returned.
"""

from slinky.bounds import WATCH_LINE_BYTES_MAX
from slinky.kube.errors import Unreadable


class LineSplitter:
    """Collects chunks and returns complete lines."""

    def __init__(self, limit: int = WATCH_LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without newlines and without empty ones."""
        head, *rest = chunk.split(b"\n")
        self._append(head)
        if not rest:
            return []
        first = b"".join(self._parts)
        *complete, tail = rest
        self._parts, self._size = [], 0
        self._append(tail)
        return [line for line in (first, *complete) if line]

    def _append(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
        if self._size > self._limit:
            raise Unreadable(f"the stream has a line of more than {self._limit} bytes")
