# SPDX-License-Identifier: Apache-2.0
"""Logins with tokens that a real API server reviews."""

import contextlib
import secrets
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from tests.unit.web.sample_pages import private

from slinky.kube import NAMESPACES, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.observe import SystemClock
from slinky.slurm import Mirror, SlurmClient
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.login import LoginRules
from slinky.web.server import PageServer, serve_page
from slinky.web.settings import WebSettings
from slinky.web.token_login import COOKIE, TokenLogin


@contextlib.asynccontextmanager
async def site(kube: KubeClient, settings: WebSettings) -> AsyncIterator[aiohttp.ClientSession]:
    """The page of a cluster with private jobs, for people with tokens of this API server."""
    rules = LoginRules.of(settings)
    async with SlurmClient("http://127.0.0.1:9", "token") as client:
        feed = ClusterFeed(client, Mirror(client), SystemClock())
        feed.data = private("jobs")
        server = PageServer(feed, rules, TokenLogin(kube, rules, SystemClock()))
        async with serve_page(server, "127.0.0.1", 0) as port:
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar) as session:
                yield session


@pytest.fixture
async def kube(plane: BarePlane) -> AsyncIterator[KubeClient]:
    async with connect(plane.kubeconfig) as client:
        yield client


async def account_token(kube: KubeClient, name: str) -> tuple[str, str]:
    """The full name and a token of a new service account."""
    space = f"web-{secrets.token_hex(4)}"
    await kube.create(NAMESPACES, {"metadata": {"name": space}})
    path = f"/api/v1/namespaces/{space}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await kube.send("POST", path, body=msgspec.json.encode(account))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await kube.send("POST", f"{path}/{name}/token", body=msgspec.json.encode(request))
    return f"system:serviceaccount:{space}:{name}", msgspec.json.decode(answer)["status"]["token"]


async def test_a_token_in_a_header_or_in_the_form_logs_in(kube: KubeClient) -> None:
    name, token = await account_token(kube, "alice")
    async with site(kube, WebSettings(token_review=True, user_prefix=name.removesuffix("alice"))) as session:
        async with session.get("/queue") as response:
            assert response.status == 401
            assert "Kubernetes token" in await response.text()
        for bad in ("made.up.token", ""):
            async with session.post("/login", data={"token": bad}) as response:
                assert response.status == 401
        async with session.get("/queue", headers={"Authorization": f"Bearer {token}"}) as response:
            text = await response.text()
            assert "run-1" in text
            assert "run-2" not in text
        form = {"token": token, "target": "//evil.example/"}
        async with session.post("/login", data=form, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (303, "/")
            cookie = response.cookies[COOKIE]
            assert cookie["httponly"]
            assert cookie["samesite"] == "Strict"
            assert token not in cookie.value
        async with session.get("/queue") as response:
            assert "Logged in as alice" in await response.text()
        async with session.post("/logout", headers={"Origin": "https://evil.example"}) as response:
            assert response.status == 403
        async with session.post("/logout", allow_redirects=False) as response:
            assert response.status == 303
        session.cookie_jar.update_cookies({COOKIE: cookie.value})
        async with session.get("/queue") as response:
            assert response.status == 401


async def test_an_account_that_is_no_slurm_user_is_refused_unless_it_is_an_operator(kube: KubeClient) -> None:
    name, token = await account_token(kube, "robot")
    header = {"Authorization": f"Bearer {token}"}
    async with site(kube, WebSettings(token_review=True)) as session, session.get("/", headers=header) as response:
        assert response.status == 403
    async with (
        site(kube, WebSettings(token_review=True, operators=(name,))) as session,
        session.get("/queue", headers=header) as response,
    ):
        assert "run-3" in await response.text()
