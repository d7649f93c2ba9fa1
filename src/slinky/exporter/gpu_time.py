# SPDX-License-Identifier: Apache-2.0
"""GPU time by use: adds up how long GPUs were allocated, idle or unavailable. Pure but for its sums."""

from collections import defaultdict

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from slinky.exporter.families import PREFIX
from slinky.exporter.families.accounts import allocated_gres
from slinky.exporter.families.resources import gres_of
from slinky.exporter.observed_metrics import OTHER, label_value
from slinky.exporter.snapshot import ClusterSnapshot

#: A longer pause between two snapshots counts as this many seconds: what happened meanwhile is not known.
PAUSE_MAX = 120.0


class GpuTime:
    """Seconds of GPUs by state and account; the account is empty for GPUs that no job holds."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)

    def add(self, snapshot: ClusterSnapshot, seconds: float) -> None:
        """Count these seconds for the GPUs of a snapshot. Jobs of accounts hold what nodes show as allocated."""
        duration = min(max(0.0, seconds), PAUSE_MAX)
        if not snapshot.hosts or not snapshot.jobs_known:
            return
        for (account, name, _), count in allocated_gres(snapshot).items():
            if name == "gpu":
                self._count("allocated", account, count * duration)
        for host in snapshot.hosts:
            for (name, _), use in gres_of(host).items():
                if name == "gpu":
                    self._count("idle", "", use.idle * duration)
                    self._count("unavailable", "", use.unavailable * duration)

    def _count(self, state: str, account: str, amount: float) -> None:
        labels = (state, label_value(account))
        if labels not in self._seconds and len(self._seconds) >= self._series_max - 1:
            labels = (state, OTHER)
        self._seconds[labels] += amount

    def collect(self, cluster: str) -> Metric:
        """The metric."""
        metric = CounterMetricFamily(
            f"{PREFIX}gpu_seconds",
            "GPU time by use; the account is empty for GPUs that no job holds.",
            labels=("cluster", "state", "account"),
        )
        for (state, account), seconds in sorted(self._seconds.items()):
            metric.add_metric([cluster, state, account], seconds)
        return metric
