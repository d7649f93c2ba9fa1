# SPDX-License-Identifier: Apache-2.0
"""Parts of the queries for metrics of the exporter that several dashboards have."""

from charts.monitoring.description import Query

CHOSEN = 'cluster=~"$cluster"'


def m(name: str, *matchers: str, **labels: str) -> str:
    """A metric of the exporter on the chosen cluster, with further matchers and label values."""
    equal = (f'{label}="{value}"' for label, value in labels.items())
    return f"slinky_slurm_{name}{{{', '.join((CHOSEN, *matchers, *equal))}}}"


def rate(name: str, *matchers: str) -> str:
    """The rate of a counter of the exporter."""
    return f"rate({m(name, *matchers)}[$__rate_interval])"


def share(part: str, whole: str) -> str:
    """A part of a whole, between 0 and 1."""
    return f"sum({part}) / sum({whole})"


def quantile(level: float, histogram: str, labels: str) -> Query:
    """A quantile of a histogram over the last hour."""
    buckets = f"sum by (le, {labels}) (rate({m(histogram + '_bucket')}[1h]))"
    return Query(f"histogram_quantile({level}, {buckets})", f"p{level * 100:.0f} {{{{{labels}}}}}")


GPUS = 'gres="gpu"'
