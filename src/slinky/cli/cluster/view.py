# SPDX-License-Identifier: Apache-2.0
"""A verb that shows something of a cluster: how it is read and printed, once or with `--watch`.

This module loads no client, so that the command starts quickly; `watch` does the work.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

import typer

from slinky.cli.cluster.command import ClusterOptions, run_command
from slinky.cli.cluster.output import OutputFormat

if TYPE_CHECKING:
    from slinky.cli.access.connection import ConnectedCluster
    from slinky.cli.access.reader import SnapshotReader

T = TypeVar("T")

INTERVAL_SECONDS = 5.0
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again when it changes, until Ctrl-C.")]
Interval = Annotated[float, typer.Option("--interval", min=1.0, help="Seconds between two reads of --watch.")]


@dataclass(frozen=True)
class ClusterView(Generic[T]):
    """How to read some data of a cluster, and how to print them; `stream` yields a text that takes long in parts."""

    read: "Callable[[ConnectedCluster, SnapshotReader], Awaitable[T]]"
    render: Callable[[T], str]
    stream: Callable[[T], Iterator[str]] | None = None


def run_view(
    options: ClusterOptions, view: ClusterView[T], output: OutputFormat, *, watch: bool, interval: float
) -> None:
    """Show a view once, or again and again."""
    from slinky.cli.cluster.watch import show_view, watch_view

    run_command(watch_view(options, view, output, interval) if watch else show_view(options, view), endless=watch)
