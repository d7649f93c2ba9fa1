# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that answers by script: for shapes that a healthy slurmrestd cannot be made to send."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Answering = Callable[[Any], web.StreamResponse]

META = {"slurm": {"release": "26.05.5", "cluster": "lab"}}


def answer(status: int = 200, /, **content: Any) -> web.Response:
    """An answer in slurmrestd's envelope."""
    body = {"meta": META, "errors": [], "warnings": [], **content}
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


def failure(status: int, number: int, source: str = "here") -> web.Response:
    """An error in slurmrestd's envelope."""
    return answer(status, errors=[{"error_number": number, "error": "text", "source": source}])


def pong(responding: bool = True) -> web.Response:
    """The answer of `/ping/`."""
    return answer(pings=[{"hostname": "ctl", "responding": responding, "primary": True}])


@asynccontextmanager
async def serving(script: Answering) -> AsyncIterator[str]:
    """The base URL of a server that answers by this script."""

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
