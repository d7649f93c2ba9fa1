# SPDX-License-Identifier: Apache-2.0
"""Requests to Slurm are counted by endpoint, never by job."""

import pytest

from slinky.exporter.request_counts import endpoint_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/slurm/v0.0.45/job/17", "slurm/job"),
        ("/slurm/v0.0.45/jobs/state/", "slurm/jobs"),
        ("/slurmdb/v0.0.45/qos/", "slurmdb/qos"),
        ("/metrics/scheduler", "slurmctld/metrics"),
        ("/openapi/v3", "other"),
    ],
)
def test_an_endpoint_has_no_identity(path: str, name: str) -> None:
    assert endpoint_name(path) == name
