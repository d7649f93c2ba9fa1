# SPDX-License-Identifier: Apache-2.0
"""What is known of a Slurm cluster at one moment, and how far that can be trusted. Pure.

A `Sight` is a snapshot of the mirror's hosts. A host that is missing from it is ABSENT only if the snapshot is fresh
and beyond doubt; without a mirror everything is UNKNOWN.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from slinky.operator.framework.conditions import Fact
from slinky.slurm import Host, Presence, Reservation

#: Knowledge older than this many seconds permits nothing that cannot be undone.
FRESH = 10.0


class SlurmSnapshot(NamedTuple):
    """One look at one cluster."""

    connected: bool = False
    trusted: bool = False
    hosts: Mapping[str, Host] = {}
    reservations: Mapping[str, Reservation] = {}
    fault: str = ""
    doubt: str = ""
    deadlines: Mapping[str, float] = {}  # when the jobs of a host are over at the latest, in seconds since 1970
    seconds: float = math.inf  # for how long the cluster has been in sight without a break
    lost: Mapping[str, float] = {}  # hosts that left Slurm's list, by how many seconds ago

    def presence(self, host: str) -> Presence:
        """Whether Slurm has this host."""
        if not self.trusted:
            return Presence.UNKNOWN
        return Presence.PRESENT if host in self.hosts else Presence.ABSENT

    def absent_seconds(self, host: str) -> float:
        """For how long Slurm has said, without a break, that it has no such host; 0 if it has, or if nobody knows."""
        if self.presence(host) is not Presence.ABSENT:
            return 0.0
        return min(self.seconds, self.lost.get(host, math.inf))

    def host(self, name: str) -> Host | None:
        """The host, if it is positively known now."""
        return self.hosts.get(name) if self.trusted else None

    def drained(self, name: str) -> bool:
        """A fresh, positive fact: no work is on this host and none will be placed there."""
        found = self.host(name)
        return found is not None and found.state.drained

    def fact(self) -> Fact:
        """For the condition."""
        if not self.connected:
            return Fact(None, "NoRestApi", "no RestApi speaks for this cluster")
        if self.fault:
            return Fact(False, "Unreachable", self.fault)
        if self.doubt:
            return Fact(None, "Doubtful", f"of Slurm's nodes {self.doubt}: nothing is deleted on that word alone")
        if self.trusted:
            return Fact(True, "Answering", "slurmctld answers")
        return Fact(None, "Connecting", "slurmctld has not been heard for a while")
