# SPDX-License-Identifier: Apache-2.0
"""The metrics registry of the process, and functions that create metrics in it.

The registry is separate from the global one of prometheus_client, so that tests and embedding programs do not collide
with it. Metrics that controller-runtime has too keep its names (`workqueue_depth`,
`controller_runtime_reconcile_total`, `rest_client_requests_total`), so that existing dashboards work; all others start
with `slinky_`.
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
from prometheus_client.exposition import choose_encoder

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

#: Further pages of metrics by their path, which the HTTP endpoint serves beside /metrics.
PAGES: dict[str, CollectorRegistry] = {}

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"


def counter(name: str, help_text: str, *labels: str) -> Counter:
    """A counter: a number that only grows."""
    return Counter(name, help_text, labels, registry=REGISTRY)


def gauge(name: str, help_text: str, *labels: str) -> Gauge:
    """A gauge: a number that goes up and down."""
    return Gauge(name, help_text, labels, registry=REGISTRY)


def histogram(name: str, help_text: str, *labels: str, buckets: Sequence[float] = DURATION_BUCKETS) -> Histogram:
    """A histogram, in seconds unless the name contains another unit."""
    return Histogram(name, help_text, labels, registry=REGISTRY, buckets=buckets)


def render_metrics(registry: CollectorRegistry = REGISTRY, accept: str = "") -> tuple[bytes, str]:
    """The metrics and their content type: OpenMetrics if the client accepts it, else the text format of Prometheus."""
    if OPENMETRICS not in accept:
        return generate_latest(registry), CONTENT_TYPE
    encode, content_type = choose_encoder(OPENMETRICS)
    return encode(registry), content_type
