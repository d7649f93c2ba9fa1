# SPDX-License-Identifier: Apache-2.0
"""Cuts a stream of chunks into lines.

Chunk borders fall anywhere, lines may be larger than many chunks, and a last line without its newline was cut
off: it is never handed out.
"""

from slinky.kube.errors import Unreadable

# etcd refuses objects of more than 1.5 MB; anything near this size is no watch event.
LIMIT = 64 * 1024 * 1024


class LineSplitter:
    """Feed chunks, get whole lines."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without newlines and without empty ones."""
        head, *rest = chunk.split(b"\n")
        self._keep(head)
        if not rest:
            return []
        first = b"".join(self._parts)
        *whole, tail = rest
        self._parts, self._size = [], 0
        self._keep(tail)
        return [line for line in (first, *whole) if line]

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
        if self._size > self._limit:
            raise Unreadable(f"a line of more than {self._limit} bytes")
