# SPDX-License-Identifier: Apache-2.0
"""What the exporter knows of a cluster at one moment. Pure.

A source that cannot be read is empty in the snapshot, so that its series disappear instead of keeping old values.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from slinky.insight.group_limits import GroupLimits
from slinky.slurm import Diag, Host, JobRecord, License, Reservation, Share


class MetricSource(Enum):
    """What is read from slurmctld, each with an age of its own."""

    JOBS = "jobs"
    NODES = "nodes"
    RESERVATIONS = "reservations"
    STATISTICS = "statistics"
    LICENSES = "licenses"
    SHARES = "shares"
    #: QOS and associations, which slurmdbd has: down on a cluster without accounting.
    LIMITS = "limits"
    #: The metrics that slurmctld itself serves; only if the settings name its address.
    NATIVE = "native"


#: Sources that are read only if the settings ask for them.
OPTIONAL_SOURCES = frozenset({MetricSource.NATIVE})


@dataclass(frozen=True)
class ClusterSnapshot:
    """One cluster. `now` is in seconds since the epoch; ages are in seconds since slurmctld confirmed a source."""

    cluster: str
    now: float
    ages: Mapping[MetricSource, float] = field(default_factory=dict)
    up: frozenset[MetricSource] = frozenset()
    jobs: Collection[JobRecord] = ()
    hosts: Collection[Host] = ()
    reservations: Collection[Reservation] = ()
    licenses: Collection[License] = ()
    #: From slurmrestd, or from slurmctld itself while slurmrestd does not answer.
    diag: Diag | None = None
    shares: Collection[Share] = ()
    limits: GroupLimits | None = None

    @property
    def nodes_known(self) -> bool:
        """Whether the list of nodes is complete."""
        return MetricSource.NODES in self.up

    @property
    def jobs_known(self) -> bool:
        """Whether the list of jobs is complete: an empty one then means that there are no jobs."""
        return MetricSource.JOBS in self.up
