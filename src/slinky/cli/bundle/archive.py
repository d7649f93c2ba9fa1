# SPDX-License-Identifier: Apache-2.0
"""Writes a support bundle: a tar.gz that only its owner can read, of a bounded size."""

import gzip
import io
import os
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Self

from slinky.cli.bundle.redaction import Redactor

#: Bytes of one entry at most; of a longer text the end is kept, because it is newer.
ENTRY_BYTES = 8 * 2**20
CUT = "[the beginning is left out]\n"


class BundleWriter:
    """Writes redacted texts as entries of an archive, until the limit of all entries is reached."""

    def __init__(self, path: Path, redactor: Redactor, *, limit: int, now: float) -> None:
        self.path = path
        self.redactor = redactor
        self._limit = limit
        self._now = int(now)
        self._folder = path.name.removesuffix(".tar.gz")
        self._partial = path.with_name(f".{path.name}.partial")
        self.size = 0
        self.entries: list[str] = []
        self.left_out: list[str] = []

    def __enter__(self) -> Self:
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=self._now)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()
        self._gzip.close()
        self._file.close()
        if error is not None or not self.entries:
            self._partial.unlink(missing_ok=True)
        else:
            self._partial.rename(self.path)

    def add(self, name: str, text: str, *, always: bool = False) -> None:
        """Add a text, redacted. An entry beyond the limit is only named, unless `always`."""
        content = cut(self.redactor.redact_text(text))
        if not always and self.size + len(content) > self._limit:
            self.left_out.append(name)
            return
        entry = tarfile.TarInfo(f"{self._folder}/{self.redactor.redact_text(name)}")
        entry.size, entry.mtime, entry.mode = len(content), self._now, 0o600
        self._tar.addfile(entry, io.BytesIO(content))
        self.size += len(content)
        self.entries.append(name)


def cut(text: str) -> bytes:
    """The text as bytes, without its beginning if it is too long."""
    content = text.encode(errors="replace")
    return content if len(content) <= ENTRY_BYTES else CUT.encode() + content[-ENTRY_BYTES:]
