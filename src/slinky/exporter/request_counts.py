# SPDX-License-Identifier: Apache-2.0
"""Counts the requests of the exporter to Slurm by endpoint, so that its cost to Slurm is visible."""

import re

from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.slurm import RequestRecord

#: Plugin and first word of a path: `/slurm/v0.0.45/job/17` is `slurm/job`.
_PATH = re.compile(r"/(slurm|slurmdb)/v[\d.]+/([a-z]+)")
#: Paths of slurmctld itself.
_NATIVE = {"/metrics/scheduler": "slurmctld/metrics"}


class RequestCounts:
    """The requests since the exporter started."""

    def __init__(self, metrics: ObservedMetrics) -> None:
        self._requests = metrics.counter(
            "exporter_requests", "Requests of the exporter to slurmrestd and slurmctld.", ("endpoint", "status")
        )

    def observe(self, request: RequestRecord) -> None:
        """Count a request; the status is empty if there was no response."""
        status = "" if request.status is None else str(request.status)
        self._requests.labels(endpoint_name(request.path), status).inc()


def endpoint_name(path: str) -> str:
    """The endpoint of a path, without identities: their number is not bounded."""
    match = _PATH.match(path)
    return f"{match[1]}/{match[2]}" if match else _NATIVE.get(path, "other")
