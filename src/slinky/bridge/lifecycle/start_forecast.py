# SPDX-License-Identifier: Apache-2.0
"""Whether a job would start at once, as far as a look at hosts and queue can tell.

A guess: it only decides which of two doors of Slurm is tried first. It is kept up to date by changes, so that asking
costs nothing: hosts from the mirror's list, and between two lists from the starts and ends of our own jobs.
"""

import contextlib
from collections.abc import Iterator

from slinky.slurm import Change, Host, JobRecord, JobRequest, Mirror, ObjectKind


class StartForecast:
    """Idle hosts and waiting jobs of ours, by partition; under "" those of all."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._idle: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._asked = 0  # hosts that are being asked for
        mirror.listen(self._changed)

    def fits(self, request: JobRequest) -> bool:
        """Whether this job would start now. Jobs that are meant to wait are not tried at all."""
        if request.hold or request.dependency or request.begin_time or request.reservation or request.licenses:
            return False
        if request.priority is not None and request.priority.whole == 0:
            return False  # that is a hold, too
        partition = request.partition or ""
        if self._queue(partition):
            return False
        idle = self._idle.get(partition, set())
        excluded = sum(name in idle for name in request.excluded_nodes or ())
        return len(idle) - excluded - self._asked >= int(request.nodes or 1)

    @contextlib.contextmanager
    def asking(self, request: JobRequest) -> Iterator[None]:
        """While Slurm is asked, its hosts are not promised to others."""
        hosts = int(request.nodes or 1)
        self._asked += hosts
        try:
            yield
        finally:
            self._asked -= hosts

    def _queue(self, partition: str) -> bool:
        """Whether a job of ours waits there; those that are forgotten do not."""
        waiting = self._waiting.get(partition, set())
        while waiting:
            job = next(iter(waiting))
            if job in self._mirror.jobs:
                return True
            waiting.discard(job)
        return False

    def _changed(self, change: Change) -> None:
        if change.kind is ObjectKind.NODE:
            self._listed(change.key, change.before, change.after)
        elif change.kind is ObjectKind.JOB:
            self._moved(change.key, change.before, change.after)

    def _listed(self, name: str, before: Host | None, after: Host | None) -> None:
        for partition in _partitions(before):
            self._idle.get(partition, set()).discard(name)
        if after is not None and after.state.idle and after.state.schedulable:
            for partition in _partitions(after):
                self._idle.setdefault(partition, set()).add(name)

    def _moved(self, job: str, before: JobRecord | None, after: JobRecord | None) -> None:
        for waiting in self._waiting.values():
            waiting.discard(job)
        if after is None:
            return
        if after.state.pending:
            for partition in ("", *(after.detail.partition.split(",") if after.detail else ())):
                self._waiting.setdefault(partition, set()).add(job)
        for granted in after.resources or ():
            host = self._mirror.nodes.get(granted.node)
            for partition in _partitions(host):
                if not after.over:
                    self._idle.get(partition, set()).discard(granted.node)
                elif before is not None and not before.over and host is not None and host.state.schedulable:
                    self._idle.setdefault(partition, set()).add(granted.node)


def _partitions(host: Host | None) -> tuple[str, ...]:
    return ("", *host.partitions) if host is not None else ()
