# SPDX-License-Identifier: Apache-2.0
"""Which failures of the connection the mirror reports to its listeners."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from slinky.slurm import (
    Diag,
    Host,
    Listing,
    Mirror,
    ObjectKind,
    PollingIntervals,
    SlurmClient,
    SlurmError,
    TransportError,
    UntrustedServer,
    number,
)


class FailingSlurmctld:
    """A slurmctld without jobs, whose statistics cannot be read while `failure` is set."""

    def __init__(self) -> None:
        self.failure: SlurmError | None = None
        self.session = SimpleNamespace(expected_cluster="", server=SimpleNamespace(cluster="one"))

    async def diag(self) -> Diag:
        if self.failure is not None:
            raise self.failure
        return Diag(req_time_start=number(1))

    async def nodes(self, since: int | None = None) -> Listing[Host]:
        return Listing((), 1)

    async def partitions(self, since: int | None = None) -> Listing[Any]:
        return Listing((), 1)

    async def reservations(self, since: int | None = None) -> Listing[Any]:
        return Listing((), 1)

    async def job_states(self, ids: list[str] | None = None) -> list[Any]:
        return []


async def test_a_certificate_that_is_not_accepted_is_reported_also_after_other_errors() -> None:
    """Other errors follow each other without a report: each of them would be another status of the cluster."""
    ctld, intervals = FailingSlurmctld(), PollingIntervals(statistics=0.01, retry_min=0.01, retry_max=0.01)
    refused, reset, untrusted = TransportError("refused"), TransportError("reset"), UntrustedServer("unknown issuer")
    async with Mirror(cast(SlurmClient, cast(Any, ctld)), intervals=intervals) as mirror:
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
