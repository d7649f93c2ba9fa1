# SPDX-License-Identifier: Apache-2.0
"""The work queue of a control loop: decides which key is reconciled next.

A key is queued at most once and is with one worker at a time. A key that is added while a worker has it is queued again
when the worker is done. With `min_interval`, a key is not handed out sooner than that after its last work, so that many
changes in a row cost few reconciles. A closed queue drops every key.

Groups (such as one Slurm cluster each) take turns, and each group has at most `group_limit` workers, so that a slow
group delays only itself. Within a group the higher priority goes first, then the key that was added first.
"""

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from slinky.kube.metrics import QUEUE_ADDS, QUEUE_DEPTH, QUEUE_RETRIES, QUEUE_WAIT
from slinky.observe import Clock, SystemClock, Timer

K = TypeVar("K", bound=Hashable)


def backoff_seconds(attempt: int, *, rng: random.Random, floor: float = 0.5, ceiling: float = 300.0) -> float:
    """Seconds until the next attempt: doubles with each attempt up to `ceiling`, with jitter of up to one half."""
    return min(ceiling, floor * 2.0 ** min(attempt, 60)) * rng.uniform(0.5, 1.0)


class _Group(Generic[K]):
    """The ready keys of one group as a heap, and how many of its keys are with workers."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, K]] = []
        self.active = 0


class Queue(Generic[K]):
    """Keys to reconcile."""

    def __init__(
        self,
        name: str = "",
        *,
        group: Callable[[K], str] | None = None,
        group_limit: int = 2**31,
        floor: float = 0.5,
        ceiling: float = 300.0,
        min_interval: float = 0.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._group_of = group or (lambda _: "")
        self._group_limit = group_limit
        self._floor, self._ceiling, self._min_interval = floor, ceiling, min_interval
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311
        self._sequence = itertools.count()
        self._groups: dict[str, _Group[K]] = {}
        self._rotation: deque[str] = deque()  # the names of the groups; the first is served next
        self._ready: dict[K, tuple[int, float]] = {}  # priority, ready since
        self._active: dict[K, str] = {}  # with the group the key came from, because the group of a key may change
        self._added_while_active: dict[K, int] = {}  # priority
        self._last_done: dict[K, float] = {}  # only with a minimum interval
        self._failures: dict[K, int] = {}
        self._delayed: dict[K, tuple[float, int]] = {}  # due at, priority
        self._delay_heap: list[tuple[float, int, K]] = []
        self._timer: tuple[float, Timer] | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._adds, self._retries = QUEUE_ADDS.labels(name), QUEUE_RETRIES.labels(name)
        self._wait_time = QUEUE_WAIT.labels(name)
        QUEUE_DEPTH.labels(name).set_function(lambda: len(self._ready))

    def __len__(self) -> int:
        return len(self._ready)

    def close(self) -> None:
        """Drop all keys that no worker has, and every key that is added until `open`."""
        self._closed = True
        self._groups = {name: group for name, group in self._groups.items() if group.active}
        self._rotation = deque(self._groups)
        for group in self._groups.values():
            group.heap.clear()
        for keys in (self._ready, self._added_while_active, self._last_done, self._failures, self._delayed):
            keys.clear()
        self._delay_heap.clear()

    def open(self) -> None:
        """Accept keys again."""
        self._closed = False

    def add(self, key: K, *, after: float = 0.0, priority: int = 0) -> None:
        """Queue `key` now or after some seconds; of several calls the earliest time and the highest priority win."""
        if self._closed:
            return
        if after > 0.0:
            self._add_delayed(key, after, priority)
            return
        self._delayed.pop(key, None)
        if key in self._active:
            self._added_while_active[key] = max(priority, self._added_while_active.get(key, priority))
        elif (remaining := self._remaining_interval(key)) > 0.0:
            self._add_delayed(key, remaining, priority)
        elif key not in self._ready or priority > self._ready[key][0]:
            self._make_ready(key, priority)

    async def get(self) -> K:
        """The next key. It belongs to the caller until `done`."""
        while (key := self._take_next()) is None:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()  # this wake-up was for a ready key: pass it on to another worker
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        return key

    def done(self, key: K) -> None:
        """The caller of `get` has finished with `key`."""
        self._groups[self._active.pop(key)].active -= 1
        if self._min_interval:
            self._last_done[key] = self._clock.monotonic()
        if key in self._added_while_active:
            self.add(key, priority=self._added_while_active.pop(key))
        self._wake_getter()

    def retry(self, key: K, *, after: float | None = None) -> float:
        """Queue `key` again after a failure: after `after` seconds or with back-off. Returns the delay."""
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self._retries.inc()
        backoff = backoff_seconds(attempt, rng=self._rng, floor=self._floor, ceiling=self._ceiling)
        delay = after or backoff  # a delay of 0 would be a busy loop
        self.add(key, after=delay)
        return delay

    def failures(self, key: K) -> int:
        """The number of failures of `key` since its last success."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Reset the back-off of `key` after a success."""
        self._failures.pop(key, None)

    def _remaining_interval(self, key: K) -> float:
        """Seconds until the minimum interval since the last work on `key` has passed."""
        last_done = self._last_done.get(key)
        remaining = 0.0 if last_done is None else last_done + self._min_interval - self._clock.monotonic()
        if remaining <= 0.0:
            self._last_done.pop(key, None)
        return remaining

    def _make_ready(self, key: K, priority: int) -> None:
        since = self._ready.get(key, (0, self._clock.monotonic()))[1]
        if key not in self._ready:
            self._adds.inc()
        self._ready[key] = (priority, since)
        name = self._group_of(key)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
            self._rotation.append(name)
        heapq.heappush(group.heap, (-priority, next(self._sequence), key))
        self._wake_getter()

    def _take_next(self) -> K | None:
        for _ in range(len(self._rotation)):
            name = self._rotation[0]
            self._rotation.rotate(-1)
            group = self._groups[name]
            if group.active < self._group_limit and (key := self._pop_best(group)) is not None:
                group.active += 1
                self._active[key] = name
                return key
            if not group.heap and not group.active:  # groups come and go while the process lives
                del self._groups[name]
                self._rotation.remove(name)
        return None

    def _pop_best(self, group: _Group[K]) -> K | None:
        while group.heap:
            negative_priority, _, key = heapq.heappop(group.heap)
            # Raising a priority leaves the old entry in the heap: it no longer matches.
            if key in self._ready and self._ready[key][0] == -negative_priority:
                _, since = self._ready.pop(key)
                self._wait_time.observe(self._clock.monotonic() - since)
                return key
        return None

    def _wake_getter(self) -> None:
        while self._getters and self._ready:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _add_delayed(self, key: K, after: float, priority: int) -> None:
        due = self._clock.monotonic() + after
        if key in self._ready or (key in self._delayed and self._delayed[key][0] <= due):
            return
        self._delayed[key] = (due, priority)
        heapq.heappush(self._delay_heap, (due, next(self._sequence), key))
        self._set_timer()

    def _set_timer(self) -> None:
        while self._delay_heap and not self._is_current(*self._delay_heap[0]):
            heapq.heappop(self._delay_heap)
        if not self._delay_heap:
            return
        due = self._delay_heap[0][0]
        if self._timer:
            if self._timer[0] <= due:
                return
            self._timer[1].cancel()
        self._timer = due, self._clock.call_later(max(0.0, due - self._clock.monotonic()), self._add_due)

    def _is_current(self, due: float, _sequence: int, key: K) -> bool:
        """Whether an entry of the heap is still valid: an earlier time for the same key replaces it."""
        return self._delayed.get(key, (None,))[0] == due

    def _add_due(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._delay_heap and self._delay_heap[0][0] <= now:
            entry = heapq.heappop(self._delay_heap)
            if self._is_current(*entry):
                key = entry[2]
                self.add(key, priority=self._delayed[key][1])
        self._set_timer()
