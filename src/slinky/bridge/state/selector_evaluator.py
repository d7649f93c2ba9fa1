# SPDX-License-Identifier: Apache-2.0
"""Evaluates device selectors beside the event loop.

Users write the selectors, and an evaluation may take a second for one device. So it runs in a thread, in turns of a few
milliseconds, and selectors that wait take turns. A selector that is expensive for one device continues in a second
thread, so that it does not delay the usual ones.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakValueDictionary

from slinky.bounds import CEL_COST_MAX
from slinky.bridge.devices import selection
from slinky.bridge.devices.inventory import DeviceInventory, Expressions
from slinky.bridge.devices.selection import CheapLimitExceeded

#: Cost after which another selector has its turn, and cost for one device that makes a selector expensive.
TURN_COST, CHEAP_COST = 10_000, 10_000


class SelectorEvaluator:
    """Stores in the inventories of nodes which devices selectors select."""

    def __init__(self, inventories: Callable[[], Collection[DeviceInventory]]) -> None:
        self._inventories = inventories
        self._locks: WeakValueDictionary[Expressions, asyncio.Lock] = WeakValueDictionary()
        # One thread each: more would only share the interpreter with the event loop.
        self._cheap = ThreadPoolExecutor(1, thread_name_prefix="selectors")
        self._expensive = ThreadPoolExecutor(1, thread_name_prefix="expensive-selectors")

    async def evaluate(self, selectors: Collection[Expressions]) -> None:
        """Evaluate expressions for every device for which that has not been done yet.

        When it returns, all inventories have a result, until the event loop runs something else.
        """
        while missing := [expressions for expressions in selectors if self.is_pending(expressions)]:
            async with self._locks.setdefault(missing[0], asyncio.Lock()):
                await self._evaluate(missing[0])

    def is_pending(self, expressions: Expressions) -> bool:
        """Whether some device has no result yet."""
        return any(not own.is_evaluated(expressions) for own in self._inventories())

    def _pending(self, expressions: Expressions) -> list[DeviceInventory]:
        return [own for own in self._inventories() if not own.is_evaluated(expressions)]

    async def _evaluate(self, expressions: Expressions) -> None:
        if not (pending := self._pending(expressions)):
            return  # another task has evaluated them meanwhile
        try:
            steps = selection.evaluation_steps(pending, expressions, CHEAP_COST)
            await self._run(self._cheap, steps, expressions)
        except CheapLimitExceeded:
            steps = selection.evaluation_steps(self._pending(expressions), expressions, CEL_COST_MAX)
            await self._run(self._expensive, steps, expressions)

    async def _run(self, executor: ThreadPoolExecutor, steps: Iterator[int], expressions: Expressions) -> None:
        """Run all steps in turns. Ends early if the cost over all devices is too high."""
        total, loop = 0, asyncio.get_running_loop()
        while cost := await loop.run_in_executor(executor, _take_turn, steps):
            total += cost
            if not selection.check_total(total, self._inventories(), expressions):
                break


def _take_turn(steps: Iterator[int]) -> int:
    """Run steps up to the cost of a turn; returns their cost, zero at the end."""
    total = 0
    for cost in steps:
        total += cost
        if total >= TURN_COST:
            break
    return total
