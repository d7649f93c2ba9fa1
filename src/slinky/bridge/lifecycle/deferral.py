# SPDX-License-Identifier: Apache-2.0
"""Defers condition and event writes while bindings are in flight, and for 0.5 s afterwards.

Conditions and events of pods that already run cost as many writes as bindings do, but no container waits for them, so
bindings get the API server's capacity first. Workloads with deferred writes are reconciled again afterwards.
"""

import contextlib
from collections.abc import Callable, Iterator

from slinky.bridge.workload.grouping import Workload
from slinky.observe import Clock, Timer

#: Deferred writes are released once no pod has been bound for this many seconds.
QUIET_SECONDS = 0.5


class Deferral:
    """Counts bindings in flight, and remembers the workloads whose writes were deferred."""

    def __init__(self, enqueue: Callable[[Workload], None], clock: Clock) -> None:
        self._enqueue, self._clock = enqueue, clock
        self._in_flight = 0  # workloads whose pods are being bound
        self._deferred: set[Workload] = set()
        self._timer: Timer | None = None  # runs while the last binding is less than QUIET_SECONDS ago

    @property
    def active(self) -> bool:
        """Whether writes should be deferred."""
        return self._in_flight > 0 or self._timer is not None

    def record(self, workload: Workload, *, deferred: bool) -> None:
        """Remember whether writes of a workload were deferred."""
        (self._deferred.add if deferred else self._deferred.discard)(workload)

    @contextlib.contextmanager
    def binding(self) -> Iterator[None]:
        """Defer writes while the pods of a workload are being bound."""
        self._in_flight += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._timer = self._clock.call_later(QUIET_SECONDS, self._release)

    def _release(self) -> None:
        """Reconcile all workloads whose writes were deferred."""
        self._timer = None
        deferred, self._deferred = self._deferred, set()
        for workload in deferred:
            self._enqueue(workload)
