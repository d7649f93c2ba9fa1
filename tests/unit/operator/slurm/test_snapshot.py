# SPDX-License-Identifier: Apache-2.0
"""A snapshot of Slurm tells only what is fresh."""

from tests.unit.operator.samples import host, trusted_snapshot

from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Presence


def test_a_snapshot_that_is_not_trusted_knows_no_host() -> None:
    fresh, stale = trusted_snapshot(host("a", "IDLE+DRAIN")), trusted_snapshot(host("a", "IDLE+DRAIN"), trusted=False)
    assert (fresh.presence("a"), fresh.presence("b")) == (Presence.PRESENT, Presence.ABSENT)
    assert (stale.presence("a"), stale.presence("b"), SlurmSnapshot().presence("a")) == (Presence.UNKNOWN,) * 3
    assert fresh.is_drained("a")
    assert not stale.is_drained("a")
    assert SlurmSnapshot().condition().value is None
    assert trusted_snapshot().condition().value is True
    assert SlurmSnapshot(connected=True, error="refused").condition().value is False


def test_a_certificate_that_is_not_accepted_has_a_reason_of_its_own() -> None:
    condition = SlurmSnapshot(
        connected=True, error="unable to get local issuer certificate", untrusted=True
    ).condition()
    assert (condition.value, condition.reason) == (False, "CertificateNotTrusted")
    assert "no token was sent" in condition.message
    assert "unable to get local issuer certificate" in condition.message
