# SPDX-License-Identifier: Apache-2.0
"""The small HTTP side door of every process: /metrics, /healthz, /livez, /readyz.

`routes` gives handlers to mount into an existing aiohttp application, `serve` runs them alone. No request
here can change anything, and none of them touches the network. With a guard, only /metrics is behind the door, and
the guard says who gets in.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from slinky.observe.health import Health
from slinky.observe.metrics import CONTENT_TYPE, REGISTRY, render_metrics

#: The status to answer with, by the caller's Authorization header: 200 lets in.
Authorizer = Callable[[str], Awaitable[int]]
REFUSALS = {401: "show a token of Kubernetes", 403: "you may not get /metrics", 503: "nobody can be asked; try again"}


def endpoint_routes(health: Health, registry: CollectorRegistry = REGISTRY) -> list[web.RouteDef]:
    """Routes to mount."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=render_metrics(registry), headers={"Content-Type": CONTENT_TYPE})

    async def live(_: web.Request) -> web.Response:
        return _answer(health.liveness())

    async def ready(_: web.Request) -> web.Response:
        return _answer(health.readiness())

    return [
        web.get("/metrics", metrics),
        web.get("/healthz", live),
        web.get("/livez", live),
        web.get("/readyz", ready),
    ]


def authorized_routes(guard: Authorizer, registry: CollectorRegistry = REGISTRY) -> list[web.RouteDef]:
    """/metrics for those whom the guard lets in."""

    async def metrics(request: web.Request) -> web.Response:
        status = await guard(request.headers.get("Authorization", ""))
        if status != 200:
            asked = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return web.Response(status=status, text=f"{REFUSALS.get(status, 'no')}\n", headers=asked)
        return web.Response(body=render_metrics(registry), headers={"Content-Type": CONTENT_TYPE})

    return [web.get("/metrics", metrics)]


def _answer(complaints: dict[str, str]) -> web.Response:
    text = "".join(f"{name}: {words}\n" for name, words in complaints.items()) or "ok\n"
    return web.Response(text=text, status=503 if complaints else 200)


@contextlib.asynccontextmanager
async def serve_endpoint(
    health: Health,
    *,
    host: str = "0.0.0.0",  # noqa: S104 -- the kubelet and Prometheus come from outside the pod
    port: int = 8080,
    registry: CollectorRegistry = REGISTRY,
    tls: ssl.SSLContext | None = None,
    guard: Authorizer | None = None,
) -> AsyncIterator[int]:
    """Serve while inside; gives the port, which matters when asked for port 0."""
    app = web.Application()
    app.add_routes(authorized_routes(guard, registry) if guard else endpoint_routes(health, registry))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
