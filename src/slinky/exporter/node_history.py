# SPDX-License-Identifier: Apache-2.0
"""Counters and histograms of what happened to nodes: failures, and how long nodes were unavailable or draining.

A node that Slurm has powered down on purpose did not fail.
"""

from slinky.exporter.families.nodes import drain_owner
from slinky.exporter.job_history import DAY, HOUR, MINUTE
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.slurm import Host

BUCKETS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY)
#: Flags of nodes that are off because Slurm saves power.
POWERED_DOWN = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP"})


class NodeHistory:
    """What happened to nodes since the exporter started; fed with every change of a node."""

    def __init__(self, metrics: ObservedMetrics) -> None:
        self._metrics = metrics
        self._failures = metrics.counter(
            "node_failures", "Nodes that became unavailable without a drain.", ("partition",)
        )
        self._unavailable = metrics.histogram(
            "node_unavailable_seconds",
            "How long nodes were unavailable that are available again.",
            ("partition",),
            BUCKETS,
        )
        self._drains = metrics.histogram(
            "node_drain_seconds", "How long nodes were draining or drained that no longer are.", ("owner",), BUCKETS
        )
        self._failed_at: dict[str, float] = {}

    def observe(self, before: Host | None, after: Host | None, now: float) -> None:
        """Count a failure, the end of one, or the end of a drain; `now` is in seconds since the epoch."""
        if after is None:
            self._failed_at.pop(before.name if before else "", None)
            return
        if before is None:
            return
        if not is_failed(before) and is_failed(after):
            self._failures.labels(*self._partition(after)).inc()
            self._failed_at[after.name] = now
        elif is_failed(before) and not is_failed(after) and (since := self._failed_at.pop(after.name, 0.0)):
            self._unavailable.labels(*self._partition(after)).observe(max(0.0, now - since))
        if before.state.draining and not after.state.draining and (since := before.reason_changed_at.whole):
            labels = self._metrics.labels("node_drain_seconds", drain_owner(before))
            self._drains.labels(*labels).observe(max(0.0, now - since))

    def _partition(self, host: Host) -> tuple[str, ...]:
        """The first partition of a node: a failure counts once."""
        return self._metrics.labels("node_failures", host.partitions[0] if host.partitions else "")


def is_failed(host: Host) -> bool:
    """Whether a node is down or does not respond, though Slurm has not powered it down."""
    unavailable = host.state.down or (not host.state.responding and not host.state.external)
    return unavailable and not host.state.flags & POWERED_DOWN
