# SPDX-License-Identifier: Apache-2.0
"""Prints lines of logs: as they are into a pipe, with control characters escaped on a terminal, or as JSON lines."""

import json
import sys
from typing import IO

from slinky.cli.cluster.output import OutputFormat
from slinky.insight.plain_text import plain

#: Bytes of one line at most; the rest of a longer line is printed as the next.
LINE_LIMIT = 2**16


class LinePrinter:
    """Prints the lines of one source; `prefix` stands before each line if there are several sources."""

    def __init__(self, source: str, output: OutputFormat, *, prefixed: bool, stream: IO[str] | None = None) -> None:
        self._source = source
        self._output = output
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()
        self._prefix = f"[{source}] " if prefixed or output is OutputFormat.WIDE else ""
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Print the lines that a chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._print(line)
        while len(self._rest) > LINE_LIMIT:
            self._print(self._rest[:LINE_LIMIT])
            self._rest = self._rest[LINE_LIMIT:]
        self._stream.flush()

    def finish(self) -> None:
        """Print a last line that has no newline."""
        if self._rest:
            self._print(self._rest)
            self._rest = b""
        self._stream.flush()

    def _print(self, line: bytes) -> None:
        text = line.decode(errors="replace").removesuffix("\r")
        if self._output is OutputFormat.JSON:
            self._stream.write(json.dumps({"source": self._source, "line": text}) + "\n")
            return
        if self._is_terminal:
            text = "\t".join(plain(part, LINE_LIMIT) for part in text.split("\t"))
        self._stream.write(f"{self._prefix}{text}\n")
