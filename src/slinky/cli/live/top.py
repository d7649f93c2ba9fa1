# SPDX-License-Identifier: Apache-2.0
"""`slinky top`: a live view of a cluster in a terminal."""

import importlib.util
import sys
from typing import Annotated

import typer

from slinky.cli.cluster.command import ClusterOptions, ExitStatus, cluster_app, fail, run_command

INTERVAL_SECONDS = 5.0
MISSING = "top needs Textual, which is not installed: pip install 'slinky[top]'; until then, use `slinky queue --watch`"


def top(
    options: ClusterOptions,
    interval: Annotated[
        float, typer.Option("--interval", min=1.0, help="Seconds between two reads.")
    ] = INTERVAL_SECONDS,
) -> None:
    """Show jobs, their pods and nodes in a terminal, and follow them.

    Keys: e explains the job or node of the cursor, h holds, r releases and c cancels a job, d drains and u undrains a
    node, Tab changes between jobs and nodes, q ends. What changes something is named first, and asks.
    """
    if importlib.util.find_spec("textual") is None:
        fail(MISSING, ExitStatus.FAILED)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        fail("top needs a terminal; in a pipe use `slinky queue --watch`", ExitStatus.USAGE)
    run_command(_top(options, interval))


async def _top(options: ClusterOptions, interval: float) -> None:
    from slinky.cli.access.connection import open_cluster
    from slinky.cli.live.top_app import TopApp
    from slinky.cli.live.top_source import TopSource

    async with open_cluster(options) as cluster:
        source = TopSource(cluster)
        await source.read()
        await TopApp(source, interval).run_async()


app = cluster_app(top)
