# SPDX-License-Identifier: Apache-2.0
"""A slurmctld in memory without jobs, nodes and changes, for tests of the mirror."""

from types import SimpleNamespace
from typing import Any, cast

from slinky.slurm import Diag, Host, Listing, SlurmClient, number


class QuietSlurmctld:
    """Answers the requests of a mirror; tests replace the answers that they change."""

    def __init__(self) -> None:
        self.started_at = 1
        self.session = SimpleNamespace(expected_cluster="", server=SimpleNamespace(cluster="one"))

    @property
    def client(self) -> SlurmClient:
        """A client that sends its requests to this object."""
        return cast(SlurmClient, cast(Any, self))

    async def diag(self) -> Diag:
        return Diag(req_time_start=number(self.started_at))

    async def nodes(self, since: int | None = None) -> Listing[Host] | None:
        return Listing((), 1)

    async def partitions(self, since: int | None = None) -> Listing[Any]:
        return Listing((), 1)

    async def reservations(self, since: int | None = None) -> Listing[Any]:
        return Listing((), 1)

    async def job_states(self, ids: list[str] | None = None) -> list[Any]:
        return []
