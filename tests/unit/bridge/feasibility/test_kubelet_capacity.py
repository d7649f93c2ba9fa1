# SPDX-License-Identifier: Apache-2.0
"""Which pods a kubelet would admit."""

import pytest
from tests.unit.bridge.build import needing

from slinky.bridge.feasibility import kubelet_capacity

ALLOCATABLE = {"cpu": "4", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("present", "coming", "lack"),
    [
        ({"cpu": "3"}, {"cpu": "1"}, ""),
        ({"cpu": "3"}, {"cpu": "1001m"}, "cpu"),
        ({"memory": "8Gi"}, {"memory": "1"}, "memory"),
        ({"example.com/gpu": "4"}, {"example.com/gpu": "4"}, ""),
        ({}, {}, ""),
    ],
)
def test_pods_that_are_still_on_the_node_count(present: dict[str, str], coming: dict[str, str], lack: str) -> None:
    assert kubelet_capacity.exceeded_resource(ALLOCATABLE, [needing(present)], [needing(coming)]) == lack
