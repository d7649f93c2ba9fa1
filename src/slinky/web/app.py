# SPDX-License-Identifier: Apache-2.0
"""Runs the page beside the exporter, with the mirror of the exporter."""

import asyncio
import contextlib
import ssl
from pathlib import Path

from slinky.kube import Key, connect
from slinky.kube.tls import server_context
from slinky.observe import Clock, ExplainedError, Log, SystemClock
from slinky.observe.process import parse_address
from slinky.slurm import Mirror, SlurmClient
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.login import LoginRules
from slinky.web.nodeset_feed import NodeSetFeed
from slinky.web.server import PageServer, serve_page
from slinky.web.settings import WebSettings, find_problem
from slinky.web.token_login import TokenLogin

log = Log("slinky.web.app")

#: Seconds between two looks at the files of the certificate.
RELOAD_SECONDS = 60.0


class WebError(ExplainedError):
    """A setting of the page cannot be used."""


async def main(settings: WebSettings, client: SlurmClient, mirror: Mirror) -> None:
    """Serve the page until cancelled. `mirror` is kept up to date by the caller."""
    try:
        host, port = parse_address(settings.web_addr)
    except ValueError as error:
        raise WebError(f"--web-addr: {error}") from error
    if problem := find_problem(settings, host):
        raise WebError(problem)
    clock, rules = SystemClock(), LoginRules.of(settings)
    async with contextlib.AsyncExitStack() as stack:
        kube = None
        if settings.token_review or settings.nodesets:
            kube = await stack.enter_async_context(connect())
        tokens = TokenLogin(kube, rules, clock) if kube and settings.token_review else None
        node_sets = NodeSetFeed(kube, Key.parse(settings.nodesets)) if kube and settings.nodesets else None
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tls = _certificate(settings, clock, tasks)
        feed = ClusterFeed(client, mirror, clock, node_sets.known if node_sets else None)
        if node_sets:
            node_sets.listen(feed.note_change)
            tasks.create_task(node_sets.run())
        bound = await stack.enter_async_context(serve_page(PageServer(feed, rules, tokens), host, port, tls))
        log.info("the page is served", address=f"{'https' if tls else 'http'}://{host}:{bound}/")
        await feed.run()


def _certificate(settings: WebSettings, clock: Clock, tasks: asyncio.TaskGroup) -> ssl.SSLContext | None:
    if not settings.web_certificates:
        return None
    folder = Path(settings.web_certificates)
    try:
        context, reload = server_context(folder / "tls.crt", folder / "tls.key")
    except (OSError, ssl.SSLError) as error:
        raise WebError(f"--web-certificates {folder}: {error}") from error

    async def renew() -> None:
        while True:
            await clock.sleep(RELOAD_SECONDS)
            reload()

    tasks.create_task(renew())
    return context
