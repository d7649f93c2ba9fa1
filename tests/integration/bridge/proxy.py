# SPDX-License-Identifier: Apache-2.0
"""A way to slurmrestd that can be broken in chosen ways, as networks and proxies break."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp import web


class Proxy:
    """Passes requests on, unless `fault` has something else for them."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.url = ""
        self.fault: Callable[[web.Request], str] = lambda _: ""
        self.requests: list[tuple[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        fault = self.fault(request)
        if fault == "404":
            return web.Response(status=404, text="Not Found")
        if fault == "401":
            return web.Response(status=401, text="Authentication failure")
        if fault == "hang":
            await asyncio.sleep(3600)
        body = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in {"host", "content-length"}
        }
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, self.target + request.raw_path, data=body, headers=headers) as answer,
        ):
            found = await answer.read()
            if fault == "cut":  # it was carried out, and nobody hears of it
                assert request.transport is not None
                request.transport.close()
            return web.Response(status=answer.status, body=found, content_type=answer.content_type)


@contextlib.asynccontextmanager
async def proxy(target: str) -> AsyncIterator[Proxy]:
    """A proxy on loopback."""
    made = Proxy(target)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()
