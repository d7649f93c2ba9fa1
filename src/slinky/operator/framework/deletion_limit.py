# SPDX-License-Identifier: Apache-2.0
"""Stops mass deletion: so many per window and no more, whatever seems to be the reason. Pure but for its memory."""

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Brake:
    """Remembers deletions of one set."""

    share: float
    least: int
    window: float
    _times: deque[float] = field(default_factory=deque)

    def room(self, total: int, now: float) -> int:
        """How many of `total` may be deleted now."""
        while self._times and self._times[0] <= now - self.window:
            self._times.popleft()
        return max(0, max(self.least, int(total * self.share)) - len(self._times))

    def record(self, now: float) -> None:
        """One was deleted."""
        self._times.append(now)
