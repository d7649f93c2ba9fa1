# SPDX-License-Identifier: Apache-2.0
"""The metrics registry of the process and its conventions.

One registry per process, so that a test or an embedding program never collides with a global. Names that
controller-runtime made customary are kept (`workqueue_depth`, `controller_runtime_reconcile_total`,
`rest_client_requests_total`), so dashboards carry over; our own start with `slinky_`.
"""

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def counter(name: str, help_text: str, *labels: str) -> Counter:
    """A number that only grows."""
    return Counter(name, help_text, labels, registry=REGISTRY)


def gauge(name: str, help_text: str, *labels: str) -> Gauge:
    """A number that goes up and down."""
    return Gauge(name, help_text, labels, registry=REGISTRY)


def histogram(name: str, help_text: str, *labels: str, buckets: Sequence[float] = DURATION_BUCKETS) -> Histogram:
    """A distribution, in seconds unless the name says otherwise."""
    return Histogram(name, help_text, labels, registry=REGISTRY, buckets=buckets)


def render_metrics(registry: CollectorRegistry = REGISTRY) -> bytes:
    """The text a Prometheus scrape receives."""
    return generate_latest(registry)
