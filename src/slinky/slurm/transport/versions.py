# SPDX-License-Identifier: Apache-2.0
"""Which data parser to speak: the newest that both sides know.

slurmrestd serves several API versions side by side, each under its own path. We ask the cheap `/ping/` of
each, newest first, and stay with the first that answers; a wrong path answers 404 in plain text, which only
here means "not served".
"""

from __future__ import annotations

from enum import IntEnum

from slinky.slurm.errors import Unsupported


class DataParserVersion(IntEnum):
    """A data parser of slurmrestd, oldest first."""

    V42 = 42  # Slurm 24.11
    V43 = 43  # Slurm 25.05: external jobs, reservation writes
    V44 = 44  # Slurm 25.11: node creation, resource layouts, external nodes
    V45 = 45  # Slurm 26.05: partition writes, requeue, configuration

    def __str__(self) -> str:
        return f"v0.0.{self.value}"


#: In the order in which they are tried.
PREFERENCE = tuple(sorted(DataParserVersion, reverse=True))


def parse(text: str) -> DataParserVersion:
    """The version named `v0.0.44`. Raises `Unsupported` for one that this library does not speak."""
    for version in DataParserVersion:
        if text == str(version):
            return version
    known = ", ".join(map(str, DataParserVersion))
    raise Unsupported(f"data parser {text!r} is not one of {known}")


def demand(have: DataParserVersion, need: DataParserVersion, what: str) -> None:
    """Raise `Unsupported` if `what` needs a newer data parser than the server has."""
    if have < need:
        raise Unsupported(f"{what} needs data parser {need}, the server has {have}")
