# SPDX-License-Identifier: Apache-2.0
"""The flags of `slinky logs` as one value."""

from dataclasses import dataclass

from slinky.cli.cluster.output import OutputFormat


@dataclass(frozen=True)
class LogOptions:
    """How much of a log to print, and how."""

    tail: int
    follow: bool = False
    previous: bool = False
    container: str = ""
    output: OutputFormat = OutputFormat.TEXT
