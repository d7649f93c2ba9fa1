# SPDX-License-Identifier: Apache-2.0
"""Forecasts whether a job would start at once, from idle hosts and pending jobs.

A forecast only decides whether an immediate allocation is tried before the job is queued, so it may be wrong. A wrong
one costs a FAILED record in Slurm, so a job that some idle host might not suit is queued. The forecast is maintained
from change notifications, so a query is cheap: hosts come from the mirror's list, and between two lists from the starts
and ends of the bridge's own jobs.
"""

import contextlib
import re
from collections.abc import Iterator
from itertools import islice

from slinky.slurm import Change, Host, JobRecord, JobRequest, Mirror, ObjectKind


class StartForecast:
    """Idle hosts and pending jobs of the bridge, by partition; the key "" stands for all partitions."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._idle: dict[str, set[str]] = {}
        self._pending: dict[str, set[str]] = {}
        self._reserved = 0  # hosts of allocations in flight
        mirror.listen(self._handle_change)

    def would_start(self, request: JobRequest) -> bool:
        """Whether this job would start now. False for jobs whose options make them wait."""
        if request.hold or request.dependency or request.begin_time or request.reservation or request.licenses:
            return False
        if request.constraints:
            return False  # which hosts have the features is left to Slurm
        if request.priority is not None and request.priority.whole == 0:
            return False  # Slurm holds a job of priority 0
        partition = request.partition or ""
        if self._has_pending_jobs(partition):
            return False
        excluded, needed = set(request.excluded_nodes or ()), int(request.nodes or 1) + self._reserved
        idle = (name for name in self._idle.get(partition, ()) if name not in excluded)
        large_enough = (name for name in idle if _is_large_enough(self._mirror.nodes.get(name), request))
        return sum(1 for _ in islice(large_enough, needed)) == needed

    @contextlib.contextmanager
    def reserve(self, request: JobRequest) -> Iterator[None]:
        """Do not count the hosts of a request as idle while its allocation is in flight."""
        hosts = int(request.nodes or 1)
        self._reserved += hosts
        try:
            yield
        finally:
            self._reserved -= hosts

    def _has_pending_jobs(self, partition: str) -> bool:
        """Whether a job of the bridge is pending there. Drops jobs that the mirror no longer tracks."""
        pending = self._pending.get(partition, set())
        while pending:
            job = next(iter(pending))
            if job in self._mirror.jobs:
                return True
            pending.discard(job)
        return False

    def _handle_change(self, change: Change) -> None:
        if change.kind is ObjectKind.NODE:
            self._update_host(change.key, change.before, change.after)
        elif change.kind is ObjectKind.JOB:
            self._update_job(change.key, change.before, change.after)

    def _update_host(self, name: str, before: Host | None, after: Host | None) -> None:
        for partition in _partitions(before):
            self._idle.get(partition, set()).discard(name)
        if after is not None and after.state.idle and after.state.schedulable:
            for partition in _partitions(after):
                self._idle.setdefault(partition, set()).add(name)

    def _update_job(self, job: str, before: JobRecord | None, after: JobRecord | None) -> None:
        for pending in self._pending.values():
            pending.discard(job)
        if after is None:
            return
        if after.state.pending:
            for partition in ("", *(after.detail.partition.split(",") if after.detail else ())):
                self._pending.setdefault(partition, set()).add(job)
        for allocated in after.resources or ():
            host = self._mirror.nodes.get(allocated.node)
            for partition in _partitions(host):
                if not after.over:
                    self._idle.get(partition, set()).discard(allocated.node)
                elif before is not None and not before.over and host is not None and host.state.schedulable:
                    self._idle.setdefault(partition, set()).add(allocated.node)


def _is_large_enough(host: Host | None, request: JobRequest) -> bool:
    """Whether an idle host has the CPUs, the memory and the kinds of GRES that a job requests."""
    if host is None or (request.cpus_per_task or 1) * (request.tasks_per_node or 1) > (host.cpus or 2**31):
        return False
    memory = request.memory_per_node.whole if request.memory_per_node is not None else 0
    if (memory or 0) > (host.real_memory or 2**63):
        return False
    kinds = re.findall(r"gres/([^:,=]+)", request.tres_per_node or "")
    return all(kind in host.gres for kind in kinds)


def _partitions(host: Host | None) -> tuple[str, ...]:
    return ("", *host.partitions) if host is not None else ()
