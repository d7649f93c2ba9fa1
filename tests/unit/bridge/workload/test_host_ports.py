# SPDX-License-Identifier: Apache-2.0
"""Host ports."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.host_ports import HostPort, host_ports_of
from slinky.bridge.workload.job_spec import JobContext, build_job_spec


def serving(name: str, *ports: int, phase: str = "Running", **more: Any) -> WorkloadPod:
    given = [{"containerPort": port, "hostPort": port, **more} for port in ports]
    return pod(name, node="n1", phase=phase, spec={"containers": [{"name": "c", "ports": given}]})


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
        (HostPort(80, "TCP", "::"), HostPort(80, "TCP", "10.0.0.2"), True),
    ],
)
def test_which_ports_conflict(one: HostPort, two: HostPort, expected: bool) -> None:
    assert one.conflicts_with(two) is two.conflicts_with(one) is expected


def test_only_host_ports_count() -> None:
    assert host_ports_of(pod(spec={"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]})) == []
    assert host_ports_of(serving("a", 80, 81)) == [HostPort(80), HostPort(81)]


def test_pods_that_share_nodes_cannot_have_host_ports() -> None:
    root = WorkloadRoot({names.OPTION + "pods-per-node": "2"})
    with pytest.raises(OptionError, match="80/TCP of pod a"):
        build_job_spec(
            Workload("ns", "PodGroup", "g"), root, [serving("a", 80), serving("b", 80)], JobContext(BridgeSettings())
        )
