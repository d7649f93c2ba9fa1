# SPDX-License-Identifier: Apache-2.0
"""The data parser versions that the library supports.

slurmrestd serves several versions at once, each under its own path. The session sends the cheap `ping/` to each
version, newest first, and keeps the first that is served. For an unknown path slurmrestd answers 404 in plain text;
only during this negotiation does that mean "not served".
"""

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


#: The versions in the order in which the session tries them.
PREFERENCE = tuple(sorted(DataParserVersion, reverse=True))


def parse_version(text: str) -> DataParserVersion:
    """Parse a version such as `v0.0.44`. Raises `Unsupported` for a version that the library does not support."""
    for version in DataParserVersion:
        if text == str(version):
            return version
    known = ", ".join(map(str, DataParserVersion))
    raise Unsupported(f"data parser {text!r} is not supported; the library supports {known}")


def require_version(available: DataParserVersion, required: DataParserVersion, request: str) -> None:
    """Raise `Unsupported` if a request needs a newer data parser than the server has."""
    if available < required:
        raise Unsupported(f"{request} needs data parser {required}, but the server has {available}")
