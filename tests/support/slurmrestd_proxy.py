# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of the real slurmrestd that fails in each of the ways that were seen in the field."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from slinky.slurm.transport.http import HttpTransport

Fault = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]]


class SlurmrestdProxy:
    """Forwards requests, unless `fault` answers them.

    `loses_response` chooses requests that slurmrestd carries out but whose response the client never gets.
    """

    def __init__(self, upstream: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._address = host, port
        self._transport = HttpTransport(upstream)
        self._runner = web.ServerRunner(web.Server(self._handle), handle_signals=False, shutdown_timeout=0.1)
        self.fault: Fault | None = None
        self.loses_response: Callable[[web.BaseRequest], bool] = lambda _: False
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        self.faults = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address).start()
        self.url = f"http://{self._address[0]}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._transport.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        body = await request.read()
        if self.fault is not None and (response := await self.fault(request)) is not None:
            self.faults += 1
            return response
        headers = {name: value for name, value in request.headers.items() if name.upper().startswith("X-SLURM")}
        reply = await self._transport.send(
            request.method, request.raw_path, headers=headers, body=body or None, deadline=60
        )
        if self.loses_response(request) and request.transport is not None:
            request.transport.close()
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)


def on_path(part: str, fault: Fault) -> Fault:
    """A fault on requests whose path contains `part`."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse | None:
        return await fault(request) if part in request.path else None

    return answer


def page(status: int, text: str, content_type: str = "text/plain") -> Fault:
    """A response that does not come from slurmrestd."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=content_type)

    return answer


def garbage() -> Fault:
    """Bytes that claim to be JSON."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b'{"jobs": [{"job_id"\xff', content_type="application/json")

    return answer


def truncated() -> Fault:
    """A response that is shorter than its length says."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"nodes": [')
        if request.transport is not None:
            request.transport.close()
        return response

    return answer


def hung() -> Fault:
    """No response, until the client gives up."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 -- has no event
            await asyncio.sleep(0.05)
        return web.Response(status=504)

    return answer


def slow(seconds: float) -> Fault:
    """The response of slurmrestd, late."""

    async def answer(_: web.BaseRequest) -> None:
        await asyncio.sleep(seconds)

    return answer


def errors_in_200(number: int = 0) -> Fault:
    """Status 200 with an error and null lists."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        body = {
            "meta": {"slurm": {"release": "26.05.5", "cluster": "lab"}},
            "errors": [{"error_number": number, "error": "it went wrong", "source": "somewhere"}],
            "nodes": None,
            "jobs": None,
        }
        return web.Response(body=json.dumps(body).encode(), content_type="application/json")

    return answer


def empty(key: str) -> Fault:
    """An empty list instead of a full one."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        body = {
            "meta": {"slurm": {"release": "26.05.5", "cluster": "lab"}},
            "errors": [],
            "warnings": [],
            key: [],
            "last_update": {"set": True, "infinite": False, "number": 1},
        }
        return web.Response(body=json.dumps(body).encode(), content_type="application/json")

    return answer
