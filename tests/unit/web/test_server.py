# SPDX-License-Identifier: Apache-2.0
"""Requests and responses: security headers, refusals, live updates, static files."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from tests.unit.web.sample_pages import private, small_cluster

from slinky.observe import SystemClock
from slinky.slurm import Mirror, SlurmClient
from slinky.slurm.errors import TransportError
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.login import LoginRules
from slinky.web.page_data import PageData
from slinky.web.server import HEADERS, PageServer, serve_page
from slinky.web.settings import WebSettings

OPEN = WebSettings(insecure_loopback=True)
PROXIED = WebSettings(proxy_addresses=("127.0.0.1",))


@contextlib.asynccontextmanager
async def site(
    data: PageData | None, settings: WebSettings = OPEN
) -> AsyncIterator[tuple[aiohttp.ClientSession, ClusterFeed]]:
    """A server whose cluster is never read: the test sets the data."""
    async with SlurmClient("http://127.0.0.1:9", "token") as client:
        feed = ClusterFeed(client, Mirror(client), SystemClock())
        feed.data = data
        server = PageServer(feed, LoginRules.of(settings))
        async with (
            serve_page(server, "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        ):
            yield session, feed


async def test_every_response_has_the_security_headers() -> None:
    async with site(small_cluster()) as (session, _):
        for path in ("/", "/queue?page=x", "/static/style.css", "/static/nothing", "/nothing", "/login", "/%00"):
            async with session.get(path) as response:
                assert {name: response.headers[name] for name in HEADERS} == HEADERS, path
        async with session.get("/nothing") as response:
            assert response.status == 404
        async with session.delete("/queue") as response:
            assert response.status == 405


async def test_static_files_with_a_version_are_kept() -> None:
    async with site(small_cluster()) as (session, _), session.get("/static/live.js?1") as response:
        assert response.headers["Cache-Control"].startswith("public")
        assert response.content_type == "text/javascript"
        assert "eval" not in await response.text()


async def test_a_cluster_that_was_not_read_yet_is_answered_with_503() -> None:
    async with site(None) as (session, _), session.get("/") as response:
        assert response.status == 503
        assert "Slurm has not been read yet" in await response.text()


async def test_a_cluster_that_was_never_reached_says_why() -> None:
    async with SlurmClient("http://127.0.0.1:9", "token") as client:
        mirror = Mirror(client)
        mirror.fault = TransportError("connection <refused>", maybe_applied=False)
        server = PageServer(ClusterFeed(client, mirror, SystemClock()), LoginRules.of(OPEN))
        async with (
            serve_page(server, "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.get("/") as response,
        ):
            assert "Slurm cannot be reached. connection &lt;refused&gt;" in await response.text()


async def test_a_forged_user_header_is_refused() -> None:
    async with site(small_cluster(), WebSettings(proxy_addresses=("10.0.0.1",))) as (session, _):
        async with session.get("/", headers={"X-Forwarded-User": "alice"}) as response:
            assert response.status == 403
            assert "trusted proxies only" in await response.text()
        async with session.get("/") as response:
            assert response.status == 401
        async with session.get("/live", headers={"X-Forwarded-User": "alice"}) as response:
            assert response.status == 403


async def test_a_user_of_a_proxy_sees_what_slurm_shows() -> None:
    async with site(private("jobs"), PROXIED) as (session, _):
        async with session.get("/queue", headers={"X-Forwarded-User": "alice"}) as response:
            text = await response.text()
            assert "run-1" in text
            assert "run-2" not in text
        async with session.get("/jobs/2", headers={"X-Forwarded-User": "alice"}) as response:
            assert response.status == 404
        async with session.get("/jobs/2", headers={"X-Forwarded-User": "dora"}) as response:
            assert response.status == 200


async def test_an_open_page_gets_new_data_and_only_what_it_may_see() -> None:
    async with site(private("jobs"), PROXIED) as (session, feed):
        request = session.get("/live", params={"address": "/queue?state=all"}, headers={"X-Forwarded-User": "alice"})
        async with request as response:
            assert response.content_type == "text/event-stream"
            assert feed.data is not None
            await feed.offer(replace(feed.data, serial=2))
            assert await response.content.readline() == b"event: page\n"
            event = await response.content.readline()
            assert b"run-1" in event
            assert b"run-2" not in event


@pytest.mark.parametrize("address", ["", "/jobs/77", "x", "//evil", "/nothing"])
async def test_a_live_page_that_does_not_exist_is_a_sentence(address: str) -> None:
    async with (
        site(small_cluster()) as (session, feed),
        session.get("/live", params={"address": address}) as response,
    ):
        await feed.offer(small_cluster())
        await response.content.readline()
        assert (await response.content.readline()).startswith(b'data: "')
