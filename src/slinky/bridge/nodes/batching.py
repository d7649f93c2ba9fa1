# SPDX-License-Identifier: Apache-2.0
"""Equal wishes about many hosts in one request.

A thousand nodes cordoned at once are a thousand equal drains. Requests go one after the other; whoever wants the same
as one that has not gone yet joins it. A request that Slurm refuses says not for which host, so each then asks alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from slinky.slurm import Rejected, TransportError

Wish = TypeVar("Wish", bound=Hashable)


@dataclass
class _Batch:
    """Hosts that want the same."""

    hosts: list[str]
    done: asyncio.Future[None]


class UpdateBatcher(Generic[Wish]):
    """Sends wishes, many hosts at a time."""

    def __init__(self, send: Callable[[list[str], Wish], Awaitable[object]]) -> None:
        self._send = send
        self._open: dict[Wish, _Batch] = {}
        self._turn = asyncio.Lock()

    async def ask(self, host: str, wish: Wish) -> None:
        """Have this done for a host. Raises what Slurm answers."""
        batch = self._open.get(wish)
        try:
            if batch is not None:
                batch.hosts.append(host)
                await asyncio.shield(batch.done)
            else:
                batch = self._open[wish] = _Batch([host], asyncio.get_running_loop().create_future())
                await self._lead(batch, wish)
        except Rejected:
            if batch is None or len(batch.hosts) == 1:
                raise
            await self._send([host], wish)

    async def _lead(self, batch: _Batch, wish: Wish) -> None:
        """Wait for a turn, which gives others time to join, and send for all of them."""
        try:
            async with self._turn:
                del self._open[wish]
                await self._send(batch.hosts, wish)
        except BaseException as error:
            if self._open.get(wish) is batch:
                del self._open[wish]
            told = error if isinstance(error, Exception) else TransportError("given up", maybe_applied=True)
            batch.done.set_exception(told)
            batch.done.exception()  # seen, even if nobody has joined
            raise
        batch.done.set_result(None)
