# SPDX-License-Identifier: Apache-2.0
"""The control loop: watches put keys into a queue, workers reconcile them.

A reconcile gets a key and nothing else, so it depends on the current state and never on an event. It runs under a
deadline, and never twice at the same time for one key. Its outcome decides when the key is reconciled again:

- it returns None: at the next change,
- it returns `RequeueAfter`: at the next change, and no later than after that many seconds,
- it raises: `classify_error` (or a classifier of the program) names the kind of error. "Try later" is retried with
  back-off. "Blocked" is reported by `on_blocked` and retried every few minutes. A bug is logged with its traceback and
  retried with back-off.

While the loop does not run, because another replica leads, changes queue nothing: a replica that waits would collect a
key for every object that ever existed. When it starts to run, it queues every object in the caches once.

Every log line of a reconcile carries the fields `controller`, `key` and `reconcile`, an id that is drawn for each run.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from slinky.kube.cache import Cache
from slinky.kube.errors import ErrorDecision, ErrorKind, classify_error
from slinky.kube.metrics import QUEUE_WORK, RECONCILE_ERRORS, RECONCILES, WORKERS_BUSY
from slinky.kube.queue import Queue
from slinky.kube.resource import own_key
from slinky.kube.types import HasMeta
from slinky.observe import Clock, Log, SystemClock, log_context

T = TypeVar("T", bound=HasMeta)
K = TypeVar("K", bound=tuple[Any, ...])

log = Log("slinky.kube.controller")


@dataclass(frozen=True)
class RequeueAfter:
    """Reconcile the key again after this many seconds, even if nothing changes."""

    seconds: float


Reconcile = Callable[[K], Awaitable[RequeueAfter | None]]
ErrorClassifier = Callable[[Exception], ErrorDecision | None]
"""Decides about the errors it knows; None for all others."""

#: A blocked object is reconciled when it changes. This interval covers causes that no watch reports, such as quotas
#: and permissions.
BLOCKED_RETRY_SECONDS = 300.0

#: Cached objects that are queued at the start before other tasks, such as the workers, get a turn.
OBJECTS_PER_SLICE = 500


class ControlLoop(Generic[K]):
    """Reconciles the keys of one queue with a fixed number of workers."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 4,
        deadline: float = 60.0,
        min_interval: float = 0.0,
        group: Callable[[K], str] | None = None,
        error_classifiers: Iterable[ErrorClassifier] = (),
        on_blocked: Callable[[K, ErrorDecision], Awaitable[None]] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._deadline = deadline
        self._error_classifiers = (*error_classifiers, classify_error)
        self._on_blocked = on_blocked
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311
        # With groups, no group may occupy more than half of the workers.
        limit = max(1, workers // 2) if group else workers
        self.queue: Queue[K] = Queue(
            name, group=group, group_limit=limit, min_interval=min_interval, clock=self._clock, rng=self._rng
        )
        self.queue.close()
        self._initial: list[tuple[Cache[Any], Callable[[Any, Any], None]]] = []

    def watch(
        self,
        cache: Cache[T],
        keys: Callable[[T], Iterable[Any]] = own_key,
        *,
        when: Callable[[T | None, T | None], bool] | None = None,
        priority: Callable[[T], int] | None = None,
        initial: bool = True,
    ) -> None:
        """Queue `keys(object)` whenever an object of `cache` changes and `when(old, new)` is true.

        The keys of the old version are queued too: an object that moves from one owner to another concerns both. With
        `initial`, the objects that are in the cache when the loop starts count as new; other watches may cover them.
        """

        def enqueue(old: T | None, new: T | None) -> None:
            if when is not None and not when(old, new):
                return
            newest = new if new is not None else old
            key_priority = priority(newest) if priority and newest is not None else 0
            for version in (old, new):
                if version is not None:
                    for key in keys(version):
                        self.queue.add(key, priority=key_priority)

        cache.listen(enqueue)
        if initial:
            self._initial.append((cache, enqueue))

    async def run(self) -> None:
        """Reconcile every object in the caches, and then those that change, until cancelled."""
        self.queue.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._work())
                await self._enqueue_cached()
        finally:
            self.queue.close()

    async def _enqueue_cached(self) -> None:
        for cache, enqueue in self._initial:
            for count, item in enumerate(cache, 1):
                enqueue(None, item)
                if count % OBJECTS_PER_SLICE == 0:
                    await asyncio.sleep(0)

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                with WORKERS_BUSY.labels(self.name).track_inprogress():
                    await self.reconcile_once(key)
            finally:
                self.queue.done(key)
            # A reconcile without a request does not suspend: a thousand in a row would stall the loop.
            await asyncio.sleep(0)

    async def reconcile_once(self, key: K) -> None:
        """Reconcile `key` and queue it again as the outcome demands."""
        reconcile_id = f"{self._rng.getrandbits(32):08x}"
        with log_context(controller=self.name, key=_format_key(key), reconcile=reconcile_id):
            started = self._clock.monotonic()
            result = await self._run_reconcile(key)
            RECONCILES.labels(self.name, result).inc()
            QUEUE_WORK.labels(self.name).observe(self._clock.monotonic() - started)

    async def _run_reconcile(self, key: K) -> str:
        try:
            async with asyncio.timeout(self._deadline):
                requeue = await self._reconcile(key)
        except Exception as error:
            return await self._handle_error(key, error)
        self.queue.forget(key)
        if requeue is None:
            return "success"
        self.queue.add(key, after=max(requeue.seconds, 0.001))
        return "requeue_after"

    async def _handle_error(self, key: K, error: Exception) -> str:
        decisions = (classify(error) for classify in self._error_classifiers)
        decision = next(decision for decision in decisions if decision is not None)
        RECONCILE_ERRORS.labels(self.name).inc()
        if decision.kind is ErrorKind.BLOCKED:
            log.warning("reconcile is blocked until a person acts", reason=decision.reason, hint=decision.message)
            self.queue.retry(key, after=decision.after or BLOCKED_RETRY_SECONDS)
            await self._report_blocked(key, decision)
        elif decision.kind is ErrorKind.LATER:
            delay = self.queue.retry(key, after=decision.after)
            log.info(
                "reconcile is retried later", reason=decision.reason, why=decision.message, seconds=round(delay, 2)
            )
        else:
            self.queue.retry(key)
            log.error("reconcile failed with an unexpected error", error=error)
        return decision.kind.value

    async def _report_blocked(self, key: K, decision: ErrorDecision) -> None:
        if self._on_blocked is None:
            return
        try:
            async with asyncio.timeout(self._deadline):
                await self._on_blocked(key, decision)
        except Exception as error:
            log.warning("reporting a blocked object failed", error=error)


def _format_key(key: tuple[Any, ...]) -> str:
    """`namespace/name`, without the slash of an empty namespace."""
    return "/".join(str(part) for part in key if part != "")
