# SPDX-License-Identifier: Apache-2.0
"""The shared Slurm with four external hosts, a proxy to it, and the whole `slinky web` in front of it."""

import asyncio
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.integration.slurm.conftest import client, proxy, slurm
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import eventually

from slinky.exporter import app as exporter_app
from slinky.exporter.settings import ExporterSettings
from slinky.lab.kubernetes.bare_plane import free_port
from slinky.lab.slurm.cluster import LabSlurm
from slinky.web import app as web_app
from slinky.web.settings import WebSettings

__all__ = ["client", "page", "proxy", "slurm"]


@pytest.fixture
async def page(slurm: LabSlurm, proxy: SlurmrestdProxy, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the page as it is served on loopback, once it has read the cluster."""
    key, port = tmp_path / "jwt.key", free_port()
    key.write_bytes(slurm.jwt_key)
    settings = ExporterSettings(slurm_rest_api=proxy.url, jwt_key_file=str(key))
    companion = functools.partial(web_app.main, WebSettings(web_addr=f"127.0.0.1:{port}", insecure_loopback=True))
    task = asyncio.create_task(exporter_app.main(settings, companions=[companion]))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        try:
            await eventually(lambda: is_served(session), "the page")
            yield session
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def is_served(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/") as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:
        return False
