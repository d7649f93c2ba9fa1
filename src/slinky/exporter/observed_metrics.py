# SPDX-License-Identifier: Apache-2.0
"""Counters and histograms of changes that the exporter observes, with the label `cluster` and a limit of series.

Only what the exporter itself observed counts: after a restart of the exporter, earlier changes are not counted again.
"""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from slinky.bounds import METRIC_LABEL_MAX
from slinky.exporter.families import PREFIX

OTHER = "other"


def label_value(text: str) -> str:
    """A label value: bounded, and without bytes that are not valid UTF-8. The renderer escapes quotes and newlines."""
    return text[:METRIC_LABEL_MAX].encode("utf-8", "replace").decode()


class ObservedMetrics:
    """A group of counters and histograms. Beyond `series_max` label sets of a metric, all labels are `other`."""

    def __init__(self, series_max: int = 5000) -> None:
        self._registry = CollectorRegistry()
        self.series_max = series_max
        self._labels: dict[str, set[tuple[str, ...]]] = {}
        #: Observations that were counted under `other`, by metric.
        self.dropped: Tally[str] = Tally()

    def counter(self, name: str, help_text: str, labels: Sequence[str]) -> Counter:
        """A counter whose name starts with the prefix of the exporter."""
        return Counter(PREFIX + name, help_text, labels, registry=self._registry)

    def histogram(self, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        """A histogram whose name starts with the prefix of the exporter."""
        return Histogram(PREFIX + name, help_text, labels, buckets=buckets, registry=self._registry)

    def labels(self, metric: str, *values: str) -> tuple[str, ...]:
        """The label values to use: these, or `other` once the metric has as many series as it may have."""
        bounded = tuple(map(label_value, values))
        known = self._labels.setdefault(metric, set())
        if bounded in known:
            return bounded
        if len(known) >= self.series_max - 1:
            self.dropped[metric] += 1
            return (OTHER,) * len(bounded)
        known.add(bounded)
        return bounded

    def collect(self, cluster: str) -> Iterator[Metric]:
        """The metrics, each sample with the label `cluster`."""
        for metric in self._registry.collect():
            labelled = Metric(metric.name, metric.documentation, metric.type)
            labelled.samples = [_in_cluster(sample, cluster) for sample in metric.samples]
            yield labelled


def _in_cluster(sample: Sample, cluster: str) -> Sample:
    labels: Mapping[str, str] = {"cluster": cluster, **sample.labels}
    return sample._replace(labels=dict(labels))
