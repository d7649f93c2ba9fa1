# SPDX-License-Identifier: Apache-2.0
"""A bridge that crashes at a chosen write to pods, claims or jobs."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from slinky.kube import KubeClient
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm.transport.endpoints import Endpoint

#: The writes that advance a workload. Events and conditions only describe it, and nodes have their own tests.
KUBE = re.compile(r"/(pods|resourceclaims|persistentvolumeclaims)(/|$)")
SLURM = re.compile(r"/job(s)?(/|$)")


class CrashInjector:
    """Counts the writes of one bridge, and stops it for ever before or after write number `at`."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after = at, after
        self.writes: list[str] = []
        self.crashed = asyncio.Event()

    def attach(self, client: KubeClient, slurm: Slurm) -> None:
        """Intercept every request of the bridge that uses these clients."""
        send, request = client.send, slurm.session._send

        async def send_kube(method: str, path: str, *args: Any, **more: Any) -> Any:
            write = method != "GET" and KUBE.search(path) is not None and not path.endswith("/status")
            return await self._intercept(f"{method} {path}", lambda: send(method, path, *args, **more), write=write)

        async def send_slurm(endpoint: Endpoint, path: str, *args: Any) -> Any:
            write = endpoint.method != "GET" and endpoint.api == "slurm" and SLURM.search(path) is not None
            name = f"{endpoint.method} {path}"
            return await self._intercept(name, lambda: request(endpoint, path, *args), write=write)

        client.send = send_kube  # type: ignore[method-assign]
        slurm.session._send = send_slurm  # type: ignore[method-assign, assignment]

    async def _intercept(self, name: str, do: Callable[[], Awaitable[Any]], *, write: bool) -> Any:
        if self.crashed.is_set():
            await asyncio.Event().wait()  # a crashed process neither sends nor receives
        if not write:
            return await do()
        self.writes.append(name)
        if len(self.writes) != self.at:
            return await do()
        if self.after:
            with contextlib.suppress(Exception):  # it crashes after this write, refused or not
                await do()
        self.crashed.set()
        return await asyncio.Event().wait()
