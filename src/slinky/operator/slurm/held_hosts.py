# SPDX-License-Identifier: Apache-2.0
"""Which hosts the running jobs of each account have, for limits of the autoscaler by account.

The mirror reads a job when it starts. Tasks of an array are read one by one, so this is done only while a NodeSet has
such limits.
"""

from collections import defaultdict
from collections.abc import Mapping

from slinky.operator.slurm.snapshot import expanded_hosts
from slinky.slurm import Change, JobRecord, Mirror, ObjectKind


class HeldHosts:
    """Follows the running jobs of one cluster while that is requested."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._following = False
        self._jobs: set[str] = set()

    def follow(self, follow: bool) -> None:
        """Begin or stop to read running jobs."""
        if follow is self._following:
            return
        self._following = follow
        for job in [*self._jobs]:
            self._forget(job, self._mirror.jobs.get(job))
        for key, record in self._mirror.jobs.items() if follow else ():
            self._note(key, record)

    def observe(self, change: Change) -> None:
        """Track jobs that hold hosts, and forget those that do not any more."""
        if self._following and change.kind is ObjectKind.JOB:
            self._note(change.key, change.after)

    def by_account(self) -> Mapping[str, frozenset[str]] | None:
        """The hosts of each account; None while a running job has not been read, or if they are not followed."""
        if not self._following:
            return None
        held: dict[str, set[str]] = defaultdict(set)
        for key in self._jobs:
            record = self._mirror.jobs.get(key)
            if record is None or record.detail is None or not record.detail.nodes:
                return None
            held[record.detail.account].update(expanded_hosts(record.detail.nodes))
        return {account: frozenset(hosts) for account, hosts in held.items()}

    def _note(self, key: str, record: JobRecord | None) -> None:
        holds = record is not None and not record.over and record.state.holds_nodes
        if holds and key not in self._jobs:
            self._jobs.add(key)
            self._mirror.track(key)
        elif not holds and key in self._jobs:
            self._forget(key, record)

    def _forget(self, key: str, record: JobRecord | None) -> None:
        self._jobs.discard(key)
        # A job that was requeued is pending again: then the reader of pending jobs tracks it.
        if record is None or not record.state.pending:
            self._mirror.forget(key)
