# SPDX-License-Identifier: Apache-2.0
"""Watches give keys, keys are reconciled, a reconcile says when to look again.

A reconcile gets a key and nothing else, so it cannot depend on events; it runs under a deadline, never twice
at once for one key. What it raises is judged in one place: try later backs off, a person must act is told to
`blocked` and looked at rarely, a bug is logged with its trace and backs off too.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from slinky.kube.cache import Cache
from slinky.kube.errors import ErrorDecision, ErrorKind, verdict
from slinky.kube.metrics import QUEUE_WORK, RECONCILE_ERRORS, RECONCILES, WORKERS_BUSY
from slinky.kube.queue import Queue
from slinky.kube.resource import own_key
from slinky.kube.types import HasMeta, Key
from slinky.observe import Clock, Log, SystemClock, context

T = TypeVar("T", bound=HasMeta)
K = TypeVar("K", bound=tuple[Any, ...])

log = Log("slinky.kube.controller")


@dataclass(frozen=True)
class Again:
    """Look again after so many seconds, even if nothing changes."""

    after: float


Reconcile = Callable[[K], Awaitable[Again | None]]
Judge = Callable[[Exception], ErrorDecision | None]

# A blocked object is looked at when it changes; this is for what changes unseen (quotas, permissions).
BLOCKED_AGAIN = 300.0


class ControlLoop(Generic[K]):
    """Calls `reconcile` for each key until the world looks as it should."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 4,
        deadline: float = 60.0,
        rest: float = 0.0,
        group: Callable[[K], str] | None = None,
        judges: Iterable[Judge] = (),
        blocked: Callable[[K, ErrorDecision], Awaitable[None]] | None = None,
        clock: Clock | None = None,
        dice: random.Random | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._deadline = deadline
        self._judges = (*judges, verdict)
        self._blocked = blocked
        self._clock = clock or SystemClock()
        # With groups no single one may hold more than half of the workers.
        share = max(1, workers // 2) if group else workers
        self.queue: Queue[K] = Queue(name, group=group, share=share, rest=rest, clock=self._clock, dice=dice)

    def watches(
        self,
        cache: Cache[T],
        keys: Callable[[T], Iterable[Any]] = own_key,
        *,
        when: Callable[[T | None, T | None], bool] | None = None,
        priority: Callable[[T], int] | None = None,
    ) -> None:
        """Reconcile `keys(object)` whenever an object of `cache` changes, and `when(old, new)` agrees.

        The keys of the old version count too: an object that moved from one owner to another concerns both.
        """

        def changed(old: T | None, new: T | None) -> None:
            if when is not None and not when(old, new):
                return
            newest = new if new is not None else old
            urgency = priority(newest) if priority and newest is not None else 0
            for version in (old, new):
                if version is not None:
                    for key in keys(version):
                        self.queue.add(key, priority=urgency)

        cache.listen(changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as family:
            for _ in range(self._workers):
                family.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                with (
                    context(controller=self.name, key=_words(key)),
                    WORKERS_BUSY.labels(self.name).track_inprogress(),
                ):
                    await self.once(key)
            finally:
                self.queue.done(key)

    async def once(self, key: K) -> None:
        """Reconcile `key` and put it back in the queue as its outcome demands."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                again = await self._reconcile(key)
        except Exception as error:
            result = await self._failed(key, error)
        else:
            result = "success" if again is None else "requeue_after"
            self.queue.forget(key)
            if again is not None:
                self.queue.add(key, after=max(again.after, 0.001))
        RECONCILES.labels(self.name, result).inc()
        QUEUE_WORK.labels(self.name).observe(self._clock.monotonic() - began)

    async def _failed(self, key: K, error: Exception) -> str:
        judged = next(found for judge in self._judges if (found := judge(error)) is not None)
        RECONCILE_ERRORS.labels(self.name).inc()
        if judged.kind is ErrorKind.BLOCKED:
            log.warning("blocked until a person acts", reason=judged.reason, hint=judged.message)
            self.queue.retry(key, after=judged.after or BLOCKED_AGAIN)
            await self._tell(key, judged)
        elif judged.kind is ErrorKind.LATER:
            pause = self.queue.retry(key, after=judged.after)
            log.info("trying again later", reason=judged.reason, why=judged.message, seconds=round(pause, 2))
        else:
            self.queue.retry(key)
            log.error("bug in a reconcile", error=error)
        return judged.kind.value

    async def _tell(self, key: K, judged: ErrorDecision) -> None:
        if self._blocked is None:
            return
        try:
            async with asyncio.timeout(self._deadline):
                await self._blocked(key, judged)
        except Exception as error:
            log.warning("could not tell that it is blocked", error=error)


def _words(key: object) -> str:
    return str(key) if isinstance(key, Key) else "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
