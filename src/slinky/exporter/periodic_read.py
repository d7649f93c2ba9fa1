# SPDX-License-Identifier: Apache-2.0
"""Reads something that the mirror does not follow, at a fixed interval, and keeps the last answer with its age."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from slinky.observe import Clock, Log
from slinky.slurm import SlurmError

log = Log("slinky.exporter.periodic_read")

T = TypeVar("T")


class PeriodicRead(Generic[T]):
    """The last answer to one question. A failed read keeps the last answer, whose age then grows."""

    def __init__(self, name: str, read: Callable[[], Awaitable[T]], seconds: float, clock: Clock) -> None:
        self._name, self._read, self._seconds, self._clock = name, read, seconds, clock
        self._read_at = float("-inf")
        self.value: T | None = None

    @property
    def age(self) -> float:
        """Seconds since the last successful read."""
        return self._clock.monotonic() - self._read_at

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                self.value = await self._read()
                self._read_at = self._clock.monotonic()
            except SlurmError as error:
                log.debug("a source cannot be read", source=self._name, error=error)
            await self._clock.sleep(self._seconds)
