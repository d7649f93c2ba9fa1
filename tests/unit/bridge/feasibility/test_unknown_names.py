# SPDX-License-Identifier: Apache-2.0
"""A rejected job is told which name Slurm does not know."""

import pytest

from slinky.bridge.feasibility.unknown_names import REJECTED_FIELDS, describe_unknown_name
from slinky.bridge.status.rejections import REJECTIONS
from slinky.slurm import JobRequest

KNOWN = {"partition": ["cpu", "gpu"], "constraints": ["a100", "nvlink"], "reservation": []}


@pytest.mark.parametrize(
    ("number", "request_", "expected"),
    [
        (2000, JobRequest(partition="gppu"), "The job has the partition gppu; did you mean gpu?"),
        (2000, JobRequest(partition="gpu,elsewhere"), "The job has the partition elsewhere."),
        (2000, JobRequest(), ""),
        (2029, JobRequest(constraints="[a100*2&nvlnk]"), "The job has the feature nvlnk; did you mean nvlink?"),
        (2053, JobRequest(reservation="course"), "The job has the reservation course."),
        (2045, JobRequest(account="physics"), "The job has the account physics."),
        (2048, JobRequest(licenses="matlab:2,ansys@server:1"), "The job has the licence matlab, ansys."),
        (2066, JobRequest(qos="high"), "The job has the QOS high."),
        (2115, JobRequest(tres_per_node="gres/gpu:a100:2"), "The job has the generic resource gpu."),
        (2014, JobRequest(partition="gpu"), ""),
    ],
)
def test_the_unknown_name_is_repeated_with_the_nearest_known_one(
    number: int, request_: JobRequest, expected: str
) -> None:
    assert describe_unknown_name(number, request_, lambda field: KNOWN.get(field, [])) == expected


def test_every_error_about_a_name_is_explained() -> None:
    assert REJECTED_FIELDS.keys() <= REJECTIONS.keys()
    assert {field for field, _ in REJECTED_FIELDS.values()} <= set(JobRequest.__struct_fields__)
