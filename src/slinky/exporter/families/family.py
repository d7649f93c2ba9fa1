# SPDX-License-Identifier: Apache-2.0
"""What a family of metrics is. A family with the type `counter` passes a counter of slurmctld on, which may start
again at zero; Prometheus handles that.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from slinky.exporter.snapshot import ClusterSnapshot
from slinky.slurm import HostlistError, expand

PREFIX = "slinky_slurm_"

#: Values by label values.
Values = Mapping[tuple[str, ...], float]
Compute = Callable[[ClusterSnapshot], Values]

PARTITION, NODE, ACCOUNT = ("partition",), ("node",), ("account",)


class Family(NamedTuple):
    """One family of metrics."""

    name: str
    help: str
    labels: tuple[str, ...]
    compute: Compute
    type: str = "gauge"
    #: One series per node, user, account or job: left out unless the settings ask for it.
    detail: str = ""


def node_names(hostlist: str) -> list[str]:
    """The names in a list of nodes; none if it is not one."""
    try:
        return expand(hostlist)
    except HostlistError:
        return []
