# SPDX-License-Identifier: Apache-2.0
"""The HTTP endpoint of every process: /metrics and its further pages, /healthz, /livez, /readyz.

`endpoint_routes` returns routes for an existing aiohttp application; `serve_endpoint` serves them alone. No request
changes anything, and the health checks send no request over the network. With an authorizer, only /metrics is served,
and the authorizer decides about each request.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from slinky.observe.health import Health
from slinky.observe.metrics import PAGES, REGISTRY, render_metrics

#: Maps the Authorization header of a request to the HTTP status of the response; 200 admits the caller.
Authorizer = Callable[[str], Awaitable[int]]
REFUSALS = {
    401: "send a Kubernetes bearer token that the API server accepts",
    403: "this user may not get the non-resource URL /metrics; ask for a ClusterRole that allows it",
    503: "the API server cannot be asked who you are; try again later",
}


def endpoint_routes(health: Health, registry: CollectorRegistry = REGISTRY) -> list[web.RouteDef]:
    """The routes of metrics and health checks."""

    async def metrics(request: web.Request) -> web.Response:
        return _metrics_response(request, registry)

    async def page(request: web.Request) -> web.Response:
        if (further := PAGES.get(request.path)) is None:
            known = "".join(f"{path}\n" for path in ("/metrics", *sorted(PAGES)))
            return web.Response(status=404, text=f"there is no such page of metrics; the pages are:\n{known}")
        return _metrics_response(request, further)

    async def live(_: web.Request) -> web.Response:
        return _health_response(health.liveness())

    async def ready(_: web.Request) -> web.Response:
        return _health_response(health.readiness())

    return [
        web.get("/metrics", metrics),
        web.get("/metrics/{page:.+}", page),
        web.get("/healthz", live),
        web.get("/livez", live),
        web.get("/readyz", ready),
    ]


def authorized_routes(authorizer: Authorizer, registry: CollectorRegistry = REGISTRY) -> list[web.RouteDef]:
    """The route of /metrics, for callers that the authorizer admits."""

    async def metrics(request: web.Request) -> web.Response:
        status = await authorizer(request.headers.get("Authorization", ""))
        if status != 200:
            challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return web.Response(status=status, text=f"{REFUSALS.get(status, 'refused')}\n", headers=challenge)
        return _metrics_response(request, registry)

    return [web.get("/metrics", metrics)]


def _metrics_response(request: web.Request, registry: CollectorRegistry) -> web.Response:
    body, content_type = render_metrics(registry, request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})


def _health_response(failures: dict[str, str]) -> web.Response:
    text = "".join(f"{check}: {message}\n" for check, message in failures.items()) or "ok\n"
    return web.Response(text=text, status=503 if failures else 200)


@contextlib.asynccontextmanager
async def serve_endpoint(
    health: Health,
    *,
    host: str = "0.0.0.0",  # noqa: S104 -- the kubelet and Prometheus come from outside the pod
    port: int = 8080,
    registry: CollectorRegistry = REGISTRY,
    tls: ssl.SSLContext | None = None,
    authorizer: Authorizer | None = None,
) -> AsyncIterator[int]:
    """Serve while the context is open. Yields the port, which the system chooses if `port` is 0."""
    app = web.Application()
    app.add_routes(authorized_routes(authorizer, registry) if authorizer else endpoint_routes(health, registry))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
