# SPDX-License-Identifier: Apache-2.0
"""A limit on disruptive actions: at most so many deletions or evictions within a sliding window of time.

The limit is an argument of each call, because it may depend on how many objects there are at that moment.
"""

from collections import deque
from dataclasses import dataclass, field


@dataclass
class RateLimit:
    """Counts actions within the last `window` seconds."""

    window: float
    _times: deque[float] = field(default_factory=deque)

    def recent(self, now: float) -> int:
        """How many actions there were within the window."""
        while self._times and self._times[0] <= now - self.window:
            self._times.popleft()
        return len(self._times)

    def remaining(self, limit: int, now: float) -> int:
        """How many more actions are allowed now, if `limit` are allowed per window."""
        return max(0, limit - self.recent(now))

    def record(self, now: float) -> None:
        """Count one action."""
        self._times.append(now)
