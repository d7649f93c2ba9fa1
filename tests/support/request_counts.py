# SPDX-License-Identifier: Apache-2.0
"""How much the code under test does, read from its own metrics."""

from slinky.kube.metrics import REQUESTS


def count_writes() -> float:
    """Requests of this process that change something on an API server."""
    samples = (sample for metric in REQUESTS.collect() for sample in metric.samples)
    return sum(
        sample.value
        for sample in samples
        if sample.name.endswith("_total") and sample.labels["method"] not in ("GET", "WATCH")
    )
