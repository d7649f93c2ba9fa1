# SPDX-License-Identifier: Apache-2.0
"""An HTTP server with scripted responses, for responses that a healthy slurmrestd never sends."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[Any], web.StreamResponse]

META = {"slurm": {"release": "26.05.5", "cluster": "lab"}}


def respond(status: int = 200, /, **content: Any) -> web.Response:
    """A response in slurmrestd's envelope."""
    body = {"meta": META, "errors": [], "warnings": [], **content}
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


def respond_error(status: int, number: int, source: str = "here") -> web.Response:
    """An error response in slurmrestd's envelope."""
    return respond(status, errors=[{"error_number": number, "error": "text", "source": source}])


def respond_ping(responding: bool = True) -> web.Response:
    """The response of `/ping/`."""
    return respond(pings=[{"hostname": "ctl", "responding": responding, "primary": True}])


@asynccontextmanager
async def serve(script: Handler) -> AsyncIterator[str]:
    """Run a server that responds with `script`; yields its base URL."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return script(request)

    runner = web.ServerRunner(web.Server(handle), handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
