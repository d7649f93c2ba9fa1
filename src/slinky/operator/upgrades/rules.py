# SPDX-License-Identifier: Apache-2.0
"""Whether a daemon may be replaced by one of another version now. Pure.

slurmdbd is upgraded first, then slurmctld, then everything that talks to slurmctld: slurmrestd, slurmd, login hosts. A
daemon waits until the one that it talks to is new enough. What cannot become right by waiting is refused with its rule.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from slinky.slurm.releases import SlurmVersion

#: Daemons that store state that an older release cannot read.
STATEFUL = frozenset({"slurmdbd", "slurmctld"})


class UpgradeAction(Enum):
    """What happens to an image that the spec asks for."""

    ALLOW = "allow"
    WAIT = "wait"
    REFUSE = "refuse"


class UpgradeVerdict(NamedTuple):
    """The decision, with its reason and message for conditions."""

    action: UpgradeAction = UpgradeAction.ALLOW
    reason: str = ""
    message: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the new image may be used."""
        return self.action is UpgradeAction.ALLOW


ALLOWED = UpgradeVerdict()


class Peer(NamedTuple):
    """A daemon that another one talks to: what it is called in messages, and its version."""

    name: str
    version: SlurmVersion


def judge_upgrade(
    daemon: str,
    running: SlurmVersion | None,
    wanted: SlurmVersion,
    server: Peer | None = None,
    clients: Iterable[Peer] = (),
) -> UpgradeVerdict:
    """Return whether `daemon` may change from the version `running` (None: it does not run yet) to `wanted`.

    `server` is the daemon that it talks to, and `clients` are those that talk to it.
    """
    return (
        _judge_state(daemon, running, wanted)
        or _judge_server(daemon, wanted, server)
        or _judge_clients(daemon, wanted, clients)
        or ALLOWED
    )


def _judge_state(daemon: str, running: SlurmVersion | None, wanted: SlurmVersion) -> UpgradeVerdict | None:
    if running is None or daemon not in STATEFUL or wanted.release == running.release:
        return None
    if wanted.release < running.release:
        text = f"{daemon} {running} has written state that {wanted} cannot read, so it is not downgraded"
        return _refuse(
            "DowngradeRefused", f"{text}; restore a backup to go back, or ask for {running.release} or later"
        )
    if not wanted.release.accepts(running.release):
        text = f"{daemon} {wanted} cannot read the state of {running}: {wanted.release.describe_window()}"
        return _refuse("UpgradeTooFar", f"{text}; upgrade to a release in between first")
    return None


def _judge_server(daemon: str, wanted: SlurmVersion, server: Peer | None) -> UpgradeVerdict | None:
    if server is None or server.version.release.accepts(wanted.release):
        return None
    if wanted.release > server.version.release:
        text = f"{daemon} {wanted} waits for {server.name}, which runs {server.version} and accepts no newer release"
        return UpgradeVerdict(UpgradeAction.WAIT, "WaitingForUpgrade", f"{text}; upgrade {server.name} first")
    text = f"{server.name} runs {server.version} and does not accept {daemon} {wanted}"
    return _refuse("VersionTooOld", f"{text}: {server.version.release.describe_window()}")


def _judge_clients(daemon: str, wanted: SlurmVersion, clients: Iterable[Peer]) -> UpgradeVerdict | None:
    for client in clients:
        # A client that is newer already does not talk to the running daemon either; the upgrade can only help.
        if client.version.release < wanted.release and not wanted.release.accepts(client.version.release):
            text = f"{daemon} {wanted} does not accept {client.name}, which runs {client.version}"
            return _refuse("ClientTooOld", f"{text}: {wanted.release.describe_window()}; upgrade {client.name} first")
    return None


def _refuse(reason: str, message: str) -> UpgradeVerdict:
    return UpgradeVerdict(UpgradeAction.REFUSE, reason, message)
