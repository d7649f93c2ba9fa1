# SPDX-License-Identifier: Apache-2.0
"""Only the API server may call an aggregated API, only for users that may read, and no group is taken from another."""

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.unit.kube.pki import self_signed
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import KubeClient
from slinky.kube.aggregation import (
    ForwardedCaller,
    FrontProxy,
    GroupRegistration,
    ServiceReference,
    register,
    serve_aggregated,
)
from slinky.kube.errors import Unreachable
from slinky.kube.tls import load_pair

OURS = ServiceReference("slinky", "webhook", 6443)
ATTRIBUTES = {"group": "external.metrics.k8s.io", "resource": "m", "verb": "get"}


def access(allowed: bool) -> Any:
    return answer(201, {"status": {"allowed": allowed}})


def api_service(name: str, bundle: str = "Y2E=", port: int = 6443) -> Any:
    spec = {"service": {"namespace": "slinky", "name": name, "port": port}, "caBundle": bundle}
    return answer(200, {"metadata": {"name": "v1.g"}, "spec": spec})


async def call(tmp_path: Path, script: list[Any], headers: dict[str, str], client: str, allowed: str = "proxy") -> int:
    """The status of a request with the certificate of `client` to a server that knows the certificate of `proxy`."""
    pairs = {name: self_signed(name) for name in ("server", "proxy", "stranger")}
    for name, text in zip(("tls.crt", "tls.key"), pairs["server"], strict=True):
        (tmp_path / name).write_bytes(text)
    proxy = FrontProxy(pairs["proxy"][0].decode(), (allowed,))
    caller = ForwardedCaller(KubeClient(Scripted(script)), proxy)

    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=await caller.status(request, ATTRIBUTES))

    app = web.Application()
    app.router.add_get("/", handle)
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    async with serve_aggregated(app, proxy, *pair, host="127.0.0.1", port=0) as (port, _):
        context = ssl.create_default_context(cadata=pairs["server"][0].decode())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if client:
            load_pair(context, *pairs[client])
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{port}/", ssl=context, headers=headers) as response,
        ):
            return response.status


USER = {"X-Remote-User": "alice", "X-Remote-Group": "people"}


@pytest.mark.parametrize(
    ("script", "headers", "status"),
    [
        ([access(True)], USER, 200),
        ([access(False)], USER, 403),
        ([Unreachable("down")], USER, 503),
        ([], {}, 401),
        ([], {"X-Remote-User": ""}, 401),
    ],
)
async def test_the_api_server_decides_about_the_user(
    tmp_path: Path, script: list[Any], headers: dict[str, str], status: int
) -> None:
    assert await call(tmp_path, script, headers, "proxy") == status


async def test_a_certificate_with_another_name_is_not_the_front_proxy(tmp_path: Path) -> None:
    assert await call(tmp_path, [], USER, "proxy", allowed="another") == 401


@pytest.mark.parametrize("client", ["", "stranger"])
async def test_a_caller_without_the_certificate_gets_no_connection(tmp_path: Path, client: str) -> None:
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await call(tmp_path, [], USER, client)


@pytest.mark.parametrize(
    ("script", "expected", "requests"),
    [
        (
            [answer(404, {"kind": "Status", "reason": "NotFound"}), api_service("webhook")],
            (GroupRegistration.OURS, ""),
            2,
        ),
        ([api_service("webhook")], (GroupRegistration.OURS, ""), 1),
        ([api_service("webhook", bundle="b2xk"), api_service("webhook")], (GroupRegistration.OURS, ""), 2),
        ([api_service("prometheus-adapter")], (GroupRegistration.TAKEN, "Service slinky/prometheus-adapter"), 1),
        (
            [answer(200, {"metadata": {"name": "v1.g"}, "spec": {}})],
            (GroupRegistration.TAKEN, "the API server itself"),
            1,
        ),
    ],
)
async def test_a_group_that_another_server_has_is_left_alone(
    script: list[Any], expected: tuple[GroupRegistration, str], requests: int
) -> None:
    transport = Scripted(script)
    assert await register(KubeClient(transport), "g", "v1", OURS, b"ca") == expected
    assert len(transport.sent) == requests


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"requestheader-client-ca-file": " "},
        {"requestheader-client-ca-file": "x", "requestheader-allowed-names": "{"},
    ],
)
def test_an_api_server_without_a_front_proxy_is_an_error(data: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"front proxies|list of names"):
        FrontProxy.parse(data)
