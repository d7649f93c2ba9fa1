# SPDX-License-Identifier: Apache-2.0
"""The versions of the daemons that slurmctld talks to. Pure."""

from collections.abc import Iterable

from slinky.api.accounting import Accounting
from slinky.operator.upgrades.rules import Peer
from slinky.slurm import Host
from slinky.slurm.releases import parse_version


def slurmdbd_peer(accounting: Accounting | None) -> Peer | None:
    """Return the slurmdbd of an Accounting, if its version is known."""
    version = parse_version(accounting.status.slurm_version) if accounting else None
    return Peer(f"slurmdbd of Accounting {accounting.metadata.name}", version) if accounting and version else None


def host_peers(hosts: Iterable[Host]) -> tuple[Peer, ...]:
    """Return one host of each version that slurmctld reports."""
    peers: dict[str, Peer] = {}
    for host in hosts:
        version = parse_version(host.version)
        if version is not None and host.version not in peers:
            peers[host.version] = Peer(f"slurmd of host {host.name}", version)
    return tuple(peers[text] for text in sorted(peers))
