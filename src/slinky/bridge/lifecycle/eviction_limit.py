# SPDX-License-Identifier: Apache-2.0
"""Stops mass eviction: pods whose jobs merely vanished leave a few at a time, whatever seems to be the reason.

A job that slurmctld shows as ended is a fact, and its pods leave at once, however many. A job that nobody knows any
more may be the fault of a database, a restored backup or a wrong address: then a person should have a say.
"""

from collections import deque
from dataclasses import dataclass, field

#: Seconds in which `most` pods may leave.
WINDOW = 600.0


@dataclass
class Brake:
    """Remembers who left. Pure but for its memory."""

    most: int
    _times: deque[float] = field(default_factory=deque)

    def lets(self, now: float) -> bool:
        """Whether one more pod may leave now; if so it is counted."""
        while self._times and self._times[0] <= now - WINDOW:
            self._times.popleft()
        if len(self._times) >= self.most:
            return False
        self._times.append(now)
        return True
