# SPDX-License-Identifier: Apache-2.0
"""Words wait for deeds: while units are given their nodes, and for a moment after, others that have theirs keep quiet.

Conditions and events of pods that run cost as many writes as bindings do, and nobody waits for them as a pod waits for
its node. Whoever was kept quiet is woken when there is time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from slinky.bridge.workload.grouping import Workload

#: Nobody has been given a node for so long: now there is time for words.
CALM = 0.5


class Deferral:
    """Who is at work, and who has something to say when that is done."""

    def __init__(self, wake: Callable[[Workload], None]) -> None:
        self._wake = wake
        self._placing = 0  # units that are being given their nodes
        self._waiting: set[Workload] = set()
        self._calm: asyncio.TimerHandle | None = None  # when nobody will have been given a node for a while

    @property
    def on(self) -> bool:
        """Whether words should wait."""
        return self._placing > 0 or self._calm is not None

    def note(self, unit: Workload, *, quiet: bool) -> None:
        """Remember whether a unit has something to say and keeps quiet for now."""
        (self._waiting.add if quiet else self._waiting.discard)(unit)

    @contextlib.contextmanager
    def placing(self) -> Iterator[None]:
        """While a unit is given its nodes."""
        self._placing += 1
        if self._calm is not None:
            self._calm.cancel()
            self._calm = None
        try:
            yield
        finally:
            self._placing -= 1
            if not self._placing:
                self._calm = asyncio.get_running_loop().call_later(CALM, self._speak)

    def _speak(self) -> None:
        """All who have waited for this may say what they have to."""
        self._calm = None
        waiting, self._waiting = self._waiting, set()
        for unit in waiting:
            self._wake(unit)
