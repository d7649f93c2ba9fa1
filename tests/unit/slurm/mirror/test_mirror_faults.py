# SPDX-License-Identifier: Apache-2.0
"""Which failures of the connection the mirror reports to its listeners."""

import asyncio

from tests.unit.slurm.mirror.quiet_slurmctld import QuietSlurmctld

from slinky.slurm import Diag, Mirror, ObjectKind, PollingIntervals, SlurmError, TransportError, UntrustedServer


class FailingSlurmctld(QuietSlurmctld):
    """A slurmctld whose statistics cannot be read while `failure` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: SlurmError | None = None

    async def diag(self) -> Diag:
        if self.failure is not None:
            raise self.failure
        return await super().diag()


async def test_a_certificate_that_is_not_accepted_is_reported_also_after_other_errors() -> None:
    """Other errors follow each other without a report: each of them would be another status of the cluster."""
    ctld, intervals = FailingSlurmctld(), PollingIntervals(statistics=0.01, retry_min=0.01, retry_max=0.01)
    refused, reset, untrusted = TransportError("refused"), TransportError("reset"), UntrustedServer("unknown issuer")
    async with Mirror(ctld.client, intervals=intervals) as mirror:
        await mirror.synced()
        with mirror.subscribe(ObjectKind.MIRROR) as feed:
            reported = []
            for ctld.failure in (refused, reset, untrusted, None):
                async with asyncio.timeout(5):
                    while mirror.fault is not ctld.failure:  # noqa: ASYNC110 - the fault has no event to wait for
                        await asyncio.sleep(0.01)
                    if ctld.failure is not reset:
                        reported.append((await feed.next()).after)
    assert reported == [refused, untrusted, None]
