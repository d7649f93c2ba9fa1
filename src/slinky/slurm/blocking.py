# SPDX-License-Identifier: Apache-2.0
"""A blocking client, for scripts without an event loop.

    with BlockingClient("http://slurmrestd:6820", token) as slurm:
        print(slurm.job(42).state, slurm.accounting.account("physics"))

It has every method of `SlurmClient` and of its `accounting`, and each call blocks until the response is there. Inside a
running event loop use `SlurmClient` instead. The client is not thread-safe.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from slinky.slurm.client import SlurmClient

R = TypeVar("R")


class BlockingProxy:
    """Wraps an object so that its coroutine methods block."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        return self._blocking(attribute) if inspect.iscoroutinefunction(attribute) else attribute

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def _blocking(self, method: Callable[..., Coroutine[Any, Any, R]]) -> Callable[..., R]:
        def call(*arguments: Any, **named: Any) -> R:
            return self._runner.run(method(*arguments, **named))

        call.__name__, call.__doc__ = method.__name__, method.__doc__
        return call


class BlockingClient(BlockingProxy):
    """A blocking client of one Slurm cluster, with the arguments of `SlurmClient`."""

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
        """Close every connection and the event loop of the client."""
        self._runner.run(self._client.close())
        self._runner.close()
