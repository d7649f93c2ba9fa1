# SPDX-License-Identifier: Apache-2.0
"""The client for scripts without an event loop: the same methods, called plainly.

    with SyncClient("http://slurmrestd:6820", token) as slurm:
        print(slurm.job(42).state, slurm.accounting.account("physics"))

Every coroutine method of `Client` and of its `accounting` is there and blocks until its answer is in. It
cannot be used inside a running event loop, where the asynchronous client belongs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from slinky.slurm.client import SlurmClient

R = TypeVar("R")


class BlockingProxy:
    """An object whose coroutine methods have become plain ones."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._plain(found) if inspect.iscoroutinefunction(found) else found

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def _plain(self, method: Callable[..., Coroutine[Any, Any, R]]) -> Callable[..., R]:
        def call(*arguments: Any, **named: Any) -> R:
            return self._runner.run(method(*arguments, **named))

        call.__name__, call.__doc__ = method.__name__, method.__doc__
        return call


class BlockingClient(BlockingProxy):
    """A blocking client of one Slurm cluster; arguments as for `Client`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._client = SlurmClient(*arguments, **named)
        super().__init__(self._client, asyncio.Runner())
        self.accounting = BlockingProxy(self._client.accounting, self._runner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and the private event loop."""
        self._runner.run(self._client.close())
        self._runner.close()
