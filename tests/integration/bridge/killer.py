# SPDX-License-Identifier: Apache-2.0
"""A bridge that dies at a chosen step: every write to pods, claims or jobs is one."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from slinky.kube import KubeClient
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm.transport.endpoints import Endpoint

#: Writes that are steps in the life of a workload. Events and conditions are words about it, nodes another matter.
KUBE = re.compile(r"/(pods|resourceclaims|persistentvolumeclaims)(/|$)")
SLURM = re.compile(r"/job(s)?(/|$)")


class Killer:
    """Counts the steps of one bridge, and ends it before or after one of them."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after = at, after
        self.steps: list[str] = []
        self.dead = asyncio.Event()

    def watch(self, client: KubeClient, slurm: Slurm) -> None:
        """Stand between a bridge and its clients."""
        send, request = client.send, slurm.session._send

        async def kube(method: str, path: str, *args: Any, **more: Any) -> Any:
            write = method != "GET" and KUBE.search(path) is not None and not path.endswith("/status")
            return await self._step(f"{method} {path}", lambda: send(method, path, *args, **more), write=write)

        async def ctld(endpoint: Endpoint, path: str, *args: Any) -> Any:
            write = endpoint.method != "GET" and endpoint.api == "slurm" and SLURM.search(path) is not None
            return await self._step(f"{endpoint.method} {path}", lambda: request(endpoint, path, *args), write=write)

        client.send = kube  # type: ignore[method-assign]
        slurm.session._send = ctld  # type: ignore[method-assign, assignment]

    async def _step(self, name: str, do: Callable[[], Awaitable[Any]], *, write: bool) -> Any:
        if self.dead.is_set():
            await asyncio.Event().wait()  # the dead write nothing, and hear nothing
        if not write:
            return await do()
        self.steps.append(name)
        if len(self.steps) != self.at:
            return await do()
        if self.after:
            with contextlib.suppress(Exception):  # it dies after this step, refused or not
                await do()
        self.dead.set()
        return await asyncio.Event().wait()
