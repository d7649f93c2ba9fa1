# SPDX-License-Identifier: Apache-2.0
"""Workers for reservations that have begun or begin soon. Pure.

A reservation names its hosts. A host whose worker was removed stays known to Slurm, so a reservation may name it; its
worker comes back with the ordinal that its name has. New workers take the lowest free ordinals.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from slinky.api.nodeset import NodeSet
from slinky.bounds import NODES_MAX, parse_integer
from slinky.operator.nodeset.autoscaling.policy import current_limits, is_near
from slinky.operator.nodeset.workers import Worker


def missing_workers(
    node_set: NodeSet, workers: Iterable[Worker], reserved_from: Mapping[str, float], now: datetime
) -> int:
    """How many further workers the NodeSet needs until each of its hosts with a reservation has one.

    Hosts with an ordinal beyond the maximum are left out: workers would come and go again for them.
    """
    policy = node_set.autoscaling
    if not reserved_from or policy is None:
        return 0
    limit = current_limits(policy, now).max_replicas
    ordinals = (host_ordinal(node_set, host) for host, begin in reserved_from.items() if is_near(begin, policy, now))
    wanted = {ordinal for ordinal in ordinals if ordinal is not None and ordinal < limit}
    occupied = {worker.ordinal for worker in workers}
    last = max(wanted - occupied, default=-1)
    return sum(ordinal not in occupied for ordinal in range(last + 1))


def host_ordinal(node_set: NodeSet, host: str) -> int | None:
    """The ordinal of the worker with this host name; None if the NodeSet has no such worker."""
    prefix = node_set.hostname(0).removesuffix(node_set.padded(0))
    ordinal = parse_integer(host.removeprefix(prefix), 0, NODES_MAX) if host.startswith(prefix) else None
    return ordinal if ordinal is not None and node_set.hostname(ordinal) == host else None
