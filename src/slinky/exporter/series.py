# SPDX-License-Identifier: Apache-2.0
"""Turns the families of a snapshot into metrics, within a limit of series.

Names in Slurm are chosen by users, so a cluster can have any number of them. Beyond the limit of a family its smallest
values are added up in one series whose labels are `other`, and `series_dropped` says how many.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from slinky.exporter.compat import CompatFamily
from slinky.exporter.families import FAMILIES, PREFIX, Family, Values
from slinky.exporter.observed_metrics import OTHER, label_value
from slinky.exporter.snapshot import OPTIONAL_SOURCES, ClusterSnapshot, MetricSource


def limit_series(family: Family | CompatFamily, values: Values, maximum: int) -> Values:
    """The largest values of a family, and the sum of the others under the label `other`."""
    if len(values) <= maximum or not family.labels:
        return values
    ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    other = (OTHER,) * len(family.labels)
    kept = dict(ordered[: maximum - 1])
    kept[other] = kept.get(other, 0) + sum(value for _, value in ordered[maximum - 1 :])
    return kept


def collect(
    snapshot: ClusterSnapshot, details: Collection[str], maximum: int, observed_dropped: Mapping[str, int] | None = None
) -> Iterator[Metric]:
    """The metrics of a snapshot, with at most so many series per family.

    `details` names the families with one series per node, account, user or job to include; `observed_dropped` is what
    other metrics of the exporter have dropped.
    """
    dropped = dict(observed_dropped or {})
    for family in FAMILIES:
        if family.detail and family.detail not in details:
            continue
        values = family.compute(snapshot)
        shown = limit_series(family, values, maximum)
        if len(shown) < len(values):
            dropped[family.name] = len(values) - len(shown) + 1
        yield _metric(family, shown, snapshot.cluster)
    yield from _source_metrics(snapshot)
    yield _dropped_metric(snapshot.cluster, dropped)


def collect_compat(
    families: Iterable[CompatFamily], snapshot: ClusterSnapshot, details: Collection[str], maximum: int
) -> Iterator[Metric]:
    """The metrics of a page of compatible names, with the same limit of series."""
    for family in families:
        if family.detail and family.detail not in details:
            continue
        metric = GaugeMetricFamily(family.name, f"Replaced by {family.replacement}.", labels=family.labels)
        for labels, value in sorted(limit_series(family, family.compute(snapshot), maximum).items()):
            metric.add_metric([label_value(text) for text in labels], value)
        yield metric


def _metric(family: Family, values: Values, cluster: str) -> Metric:
    kind = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
    metric = kind(PREFIX + family.name, family.help, labels=("cluster", *family.labels))
    for labels, value in sorted(values.items()):
        metric.add_metric([label_value(text) for text in (cluster, *labels)], value)
    return metric


def _source_metrics(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    labels = ("cluster", "source")
    up = GaugeMetricFamily(
        f"{PREFIX}up", "1 while a source can be read; its series are left out otherwise.", labels=labels
    )
    age = GaugeMetricFamily(
        f"{PREFIX}source_age_seconds", "Seconds since slurmctld last confirmed what a source shows.", labels=labels
    )
    for source in MetricSource:
        if source in OPTIONAL_SOURCES and source not in snapshot.ages:
            continue
        up.add_metric([snapshot.cluster, source.value], float(source in snapshot.up))
        if (seconds := snapshot.ages.get(source, math.inf)) != math.inf:
            age.add_metric([snapshot.cluster, source.value], seconds)
    yield from (up, age)


def _dropped_metric(cluster: str, dropped: Mapping[str, int]) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}series_dropped",
        "Series of a family beyond the limit, which are added up under the label `other`.",
        labels=("cluster", "family"),
    )
    for family, count in sorted(dropped.items()):
        metric.add_metric([cluster, family], count)
    return metric
