# SPDX-License-Identifier: Apache-2.0
"""Sends equal requests for many hosts as one request.

A thousand nodes that are cordoned at once need a thousand equal drains. Requests are sent one at a time; a request
that equals one that has not been sent yet joins it. Slurm does not say which host caused a rejection, so a rejected
batch is retried host by host.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from slinky.slurm import Rejected, TransportError

Request = TypeVar("Request", bound=Hashable)


@dataclass
class _Batch:
    """Hosts of one request."""

    hosts: list[str]
    done: asyncio.Future[None]


class UpdateBatcher(Generic[Request]):
    """Sends requests for one or many hosts."""

    def __init__(self, send: Callable[[list[str], Request], Awaitable[object]]) -> None:
        self._send = send
        self._open: dict[Request, _Batch] = {}  # batches that have not been sent
        self._sending = asyncio.Lock()

    async def submit(self, host: str, request: Request) -> None:
        """Send a request for a host, alone or in a batch. Raises the error of Slurm."""
        batch = self._open.get(request)
        try:
            if batch is not None:
                batch.hosts.append(host)
                await asyncio.shield(batch.done)
            else:
                batch = self._open[request] = _Batch([host], asyncio.get_running_loop().create_future())
                await self._send_batch(batch, request)
        except Rejected:
            if batch is None or len(batch.hosts) == 1:
                raise
            await self._send([host], request)

    async def _send_batch(self, batch: _Batch, request: Request) -> None:
        """Wait until the previous batch has been sent, while other hosts join this one, then send it."""
        try:
            async with self._sending:
                del self._open[request]
                await self._send(batch.hosts, request)
        except BaseException as error:
            if self._open.get(request) is batch:
                del self._open[request]
            cancelled = not isinstance(error, Exception)
            batch.done.set_exception(TransportError("cancelled", maybe_applied=True) if cancelled else error)
            batch.done.exception()  # marks the exception as retrieved, even if no other host has joined
            raise
        batch.done.set_result(None)
