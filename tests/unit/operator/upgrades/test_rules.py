# SPDX-License-Identifier: Apache-2.0
"""Whether a daemon may be replaced by one of another version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.operator.upgrades.rules import STATEFUL, Peer, UpgradeAction, UpgradeVerdict, judge_upgrade
from slinky.slurm.releases import Release, SlurmVersion, parse_version

VERSIONS = st.builds(
    SlurmVersion,
    st.sampled_from([Release(*pair) for pair in ((23, 11), (24, 5), (24, 11), (25, 5), (25, 11), (26, 5), (26, 11))]),
    st.integers(0, 9),
)
PEERS = st.builds(Peer, st.just("the other"), VERSIONS)


def v(text: str) -> SlurmVersion:
    version = parse_version(text)
    assert version is not None
    return version


def judge(daemon: str, running: str, wanted: str, server: str = "", client: str = "") -> UpgradeVerdict:
    return judge_upgrade(
        daemon,
        v(running) if running else None,
        v(wanted),
        Peer("the server", v(server)) if server else None,
        [Peer("a client", v(client))] if client else [],
    )


@pytest.mark.parametrize(
    ("law", "verdict", "reason"),
    [
        ("a first start is allowed", judge("slurmdbd", "", "26.05.1"), ""),
        ("a maintenance version may go up", judge("slurmctld", "26.05.1", "26.05.2"), ""),
        ("and down", judge("slurmctld", "26.05.2", "26.05.1"), ""),
        ("the window is three releases", judge("slurmdbd", "24.11.5", "26.05.5"), ""),
        ("not four", judge("slurmdbd", "24.05.1", "26.05.5"), "UpgradeTooFar"),
        ("state is not downgraded", judge("slurmctld", "26.05.1", "25.11.1"), "DowngradeRefused"),
        ("a worker without state may go back", judge("slurmd", "26.05.1", "25.11.1", server="26.05.1"), ""),
        ("unless slurmctld is too new", judge("slurmd", "26.05.1", "24.05.1", server="26.05.1"), "VersionTooOld"),
        ("slurmctld waits", judge("slurmctld", "24.11.5", "26.05.5", server="24.11.5"), "WaitingForUpgrade"),
        ("and goes on after it", judge("slurmctld", "24.11.5", "26.05.5", server="26.05.5"), ""),
        ("workers wait for slurmctld", judge("slurmd", "24.11.5", "26.05.5", server="25.11.5"), "WaitingForUpgrade"),
        ("no daemon loses its clients", judge("slurmctld", "25.11.1", "26.11.1", client="24.11.5"), "ClientTooOld"),
        ("clients in the window go on", judge("slurmctld", "25.11.1", "26.05.1", client="24.11.5"), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_rules(law: str, verdict: UpgradeVerdict, reason: str) -> None:
    assert verdict.reason == reason, law
    assert verdict.allowed == (not reason)
    if reason:
        assert verdict.message


@given(st.sampled_from(["slurmdbd", "slurmctld", "slurmd"]), VERSIONS, VERSIONS, PEERS, st.lists(PEERS, max_size=3))
def test_after_an_allowed_upgrade_all_daemons_understand_each_other(
    daemon: str, running: SlurmVersion, wanted: SlurmVersion, server: Peer, clients: list[Peer]
) -> None:
    verdict = judge_upgrade(daemon, running, wanted, server, clients)
    if verdict.allowed:
        assert server.version.release.accepts(wanted.release)
        assert all(wanted.release.accepts(c.version.release) or c.version.release > wanted.release for c in clients)
        assert daemon not in STATEFUL or wanted.release.accepts(running.release)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_waiting_ends_when_the_server_has_the_wanted_version(
    running: SlurmVersion, wanted: SlurmVersion, server: SlurmVersion
) -> None:
    before = judge_upgrade("slurmctld", running, wanted, Peer("slurmdbd", server))
    if before.action is UpgradeAction.WAIT:
        assert judge_upgrade("slurmctld", running, wanted, Peer("slurmdbd", wanted)).allowed


@given(VERSIONS, st.integers(0, 9))
def test_a_maintenance_version_is_always_allowed(running: SlurmVersion, maintenance: int) -> None:
    wanted = running._replace(maintenance=maintenance)
    for daemon in ("slurmdbd", "slurmctld", "slurmd"):
        assert judge_upgrade(daemon, running, wanted, Peer("the server", running), [Peer("a client", running)]).allowed
