# SPDX-License-Identifier: Apache-2.0
"""Which key is worked on next.

A key waits at most once, is worked on by one worker at a time, and comes again if it was added meanwhile.
With `rest` it does not come back sooner than that after its last work, so that a storm of changes costs a few looks.
Groups (one Slurm cluster, say) take turns and have a share of the workers, so that a slow group delays only
itself; within a group higher priority goes first, then first come.
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


def backoff(attempt: int, *, dice: random.Random, floor: float = 0.5, ceiling: float = 300.0) -> float:
    """Seconds before the next try: doubling, capped, jittered downwards."""
    return min(ceiling, floor * 2.0 ** min(attempt, 60)) * dice.uniform(0.5, 1.0)


class _Lane(Generic[K]):
    """The ready keys of one group, best first."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, K]] = []
        self.busy = 0


class Queue(Generic[K]):
    """Keys to work on."""

    def __init__(
        self,
        name: str = "",
        *,
        group: Callable[[K], str] | None = None,
        share: int = 2**31,
        floor: float = 0.5,
        ceiling: float = 300.0,
        rest: float = 0.0,
        clock: Clock | None = None,
        dice: random.Random | None = None,
    ) -> None:
        self._group = group or (lambda _: "")
        self._share = share
        self._floor, self._ceiling, self._rest = floor, ceiling, rest
        self._clock = clock or SystemClock()
        self._dice = dice or random.Random()  # noqa: S311
        self._order = itertools.count()
        self._lanes: dict[str, _Lane[K]] = {}
        self._turns: deque[str] = deque()
        self._ready: dict[K, tuple[int, float]] = {}  # priority, since when
        self._busy: dict[K, str] = {}  # with the lane it came from: the group of a key may change meanwhile
        self._dirty: dict[K, int] = {}  # added while busy, with priority
        self._ended: dict[K, float] = {}  # when work ended that deserves a rest
        self._failures: dict[K, int] = {}
        self._due: dict[K, tuple[float, int]] = {}  # when, priority
        self._delayed: list[tuple[float, int, K]] = []
        self._timer: tuple[float, Timer] | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._adds, self._retries = QUEUE_ADDS.labels(name), QUEUE_RETRIES.labels(name)
        self._wait = QUEUE_WAIT.labels(name)
        QUEUE_DEPTH.labels(name).set_function(lambda: len(self._ready))

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K, *, after: float = 0.0, priority: int = 0) -> None:
        """Work on `key`, now or `after` seconds; the earliest wish and the highest priority win."""
        if after > 0.0:
            self._delay(key, after, priority)
            return
        self._due.pop(key, None)
        if key in self._busy:
            self._dirty[key] = max(priority, self._dirty.get(key, priority))
        elif (early := self._early(key)) > 0.0:
            self._delay(key, early, priority)
        elif key not in self._ready or priority > self._ready[key][0]:
            self._make_ready(key, priority)

    async def get(self) -> K:
        """The next key; it stays with the caller until `done`."""
        while (key := self._pick()) is None:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # our wake-up belongs to somebody else now
                raise
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
        return key

    def done(self, key: K) -> None:
        """The caller of `get` is finished with `key`."""
        self._lanes[self._busy.pop(key)].busy -= 1
        if self._rest:
            self._ended[key] = self._clock.monotonic()
        if key in self._dirty:
            self.add(key, priority=self._dirty.pop(key))
        self._wake()

    def retry(self, key: K, *, after: float | None = None) -> float:
        """Work on `key` again after a failure: after `after`, or after a growing pause; the pause."""
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        self._retries.inc()
        grown = backoff(attempt, dice=self._dice, floor=self._floor, ceiling=self._ceiling)
        pause = after or grown  # a pause of nothing would be a busy loop
        self.add(key, after=pause)
        return pause

    def failures(self, key: K) -> int:
        """How often `key` failed in a row."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """`key` succeeded: its next failure starts with a short pause again."""
        self._failures.pop(key, None)

    def _early(self, key: K) -> float:
        """How many seconds too early it would be to work on `key` now."""
        ended = self._ended.get(key)
        early = 0.0 if ended is None else ended + self._rest - self._clock.monotonic()
        if early <= 0.0:
            self._ended.pop(key, None)
        return early

    def _make_ready(self, key: K, priority: int) -> None:
        since = self._ready.get(key, (0, self._clock.monotonic()))[1]
        if key not in self._ready:
            self._adds.inc()
        self._ready[key] = (priority, since)
        group = self._group(key)
        lane = self._lanes.get(group)
        if lane is None:
            lane = self._lanes[group] = _Lane()
            self._turns.append(group)
        heapq.heappush(lane.heap, (-priority, next(self._order), key))
        self._wake()

    def _pick(self) -> K | None:
        for _ in range(len(self._turns)):
            group = self._turns[0]
            self._turns.rotate(-1)
            lane = self._lanes[group]
            if lane.busy < self._share and (key := self._best(lane)) is not None:
                lane.busy += 1
                self._busy[key] = group
                return key
            if not lane.heap and not lane.busy:  # groups come and go for as long as we live
                del self._lanes[group]
                self._turns.remove(group)
        return None

    def _best(self, lane: _Lane[K]) -> K | None:
        while lane.heap:
            negative, _, key = heapq.heappop(lane.heap)
            # An entry left behind by a raised priority does not match any more.
            if key in self._ready and self._ready[key][0] == -negative:
                _, since = self._ready.pop(key)
                self._wait.observe(self._clock.monotonic() - since)
                return key
        return None

    def _wake(self) -> None:
        while self._waiting and self._ready:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _delay(self, key: K, after: float, priority: int) -> None:
        when = self._clock.monotonic() + after
        if key in self._ready or (key in self._due and self._due[key][0] <= when):
            return
        self._due[key] = (when, priority)
        heapq.heappush(self._delayed, (when, next(self._order), key))
        self._set_timer()

    def _set_timer(self) -> None:
        while self._delayed and self._due.get(self._delayed[0][2], (None,))[0] != self._delayed[0][0]:
            heapq.heappop(self._delayed)  # overtaken by an earlier wish
        if not self._delayed:
            return
        when = self._delayed[0][0]
        if self._timer:
            if self._timer[0] <= when:
                return
            self._timer[1].cancel()
        self._timer = when, self._clock.call_later(max(0.0, when - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            when, _, key = heapq.heappop(self._delayed)
            if self._due.get(key, (None,))[0] == when:
                self.add(key, priority=self._due[key][1])
        self._set_timer()
