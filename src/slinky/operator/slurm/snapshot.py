# SPDX-License-Identifier: Apache-2.0
"""What is known of a Slurm cluster at one moment, and how far it can be trusted. Pure.

A snapshot copies the hosts of the mirror. A host that is missing from it is ABSENT only if the snapshot is fresh and
free of doubt; without a connection every host is UNKNOWN.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from slinky.operator.framework.conditions import ConditionState
from slinky.slurm import Host, HostlistError, Presence, Reservation, expand

#: Older data, in seconds, does not justify an action that cannot be undone.
FRESH = 10.0


class SlurmSnapshot(NamedTuple):
    """A copy of what is known of one cluster."""

    connected: bool = False
    trusted: bool = False
    hosts: Mapping[str, Host] = {}
    reservations: Mapping[str, Reservation] = {}
    reserved_from: Mapping[str, float] = {}  # when the next or current reservation of a host begins
    error: str = ""
    untrusted: bool = False  # the certificate of slurmrestd was not accepted
    doubt: str = ""
    deadlines: Mapping[str, float] = {}  # latest end of the jobs on a host, in seconds since 1970
    reachable_seconds: float = math.inf  # for how long the cluster has been reachable without interruption
    removed_seconds: Mapping[str, float] = {}  # seconds since hosts disappeared from Slurm

    def presence(self, host: str) -> Presence:
        """Return whether Slurm has this host."""
        if not self.trusted:
            return Presence.UNKNOWN
        return Presence.PRESENT if host in self.hosts else Presence.ABSENT

    def absent_seconds(self, host: str) -> float:
        """Return for how long Slurm has reported without interruption that it has no such host.

        The result is 0 if Slurm has the host or if its presence is unknown.
        """
        if self.presence(host) is not Presence.ABSENT:
            return 0.0
        return min(self.reachable_seconds, self.removed_seconds.get(host, math.inf))

    def host(self, name: str) -> Host | None:
        """Return the host if it is present and the snapshot is trusted."""
        return self.hosts.get(name) if self.trusted else None

    def is_drained(self, name: str) -> bool:
        """Return whether a trusted snapshot shows that the host has no job and gets none."""
        host = self.host(name)
        return host is not None and host.state.drained

    def condition(self) -> ConditionState:
        """Return the state of the condition SlurmReachable."""
        if not self.connected:
            return ConditionState(None, "NoRestApi", "no RestApi refers to the Controller of this cluster")
        if self.untrusted:
            message = (
                "slurmrestd has a certificate that the authorities of its RestApi have not signed, so no token was "
                f"sent: {self.error}; another program may answer in its place, or its pod has another Secret than "
                "<name>-restapi-tls"
            )
            return ConditionState(False, "CertificateNotTrusted", message)
        if self.error:
            return ConditionState(False, "Unreachable", self.error)
        if self.doubt:
            message = f"Slurm's list of nodes is doubtful: {self.doubt}; nothing is deleted because of it"
            return ConditionState(None, "Doubtful", message)
        if self.trusted:
            return ConditionState(True, "Answering", "slurmctld answers")
        return ConditionState(None, "Connecting", "slurmctld has not answered recently")


def reserved_hosts(reservations: Iterable[Reservation], now: float) -> dict[str, float]:
    """When the first reservation of each host begins, in seconds since 1970, without those for maintenance."""
    begins: dict[str, float] = {}
    for item in reservations:
        if "MAINT" in item.flags or item.end_time.whole <= now:
            continue
        for host in expanded_hosts(item.node_list):
            begins[host] = min(begins.get(host, math.inf), item.start_time.whole)
    return begins


@lru_cache(maxsize=1024)
def expanded_hosts(node_list: str) -> tuple[str, ...]:
    """The hosts of a list as Slurm writes it; none if it cannot be read."""
    try:
        return tuple(expand(node_list))
    except HostlistError:
        return ()
