# SPDX-License-Identifier: Apache-2.0
"""Host ports."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.config import Settings
from slinky.bridge.state.host_ports import Port, clash, ports_of
from slinky.bridge.state.views import Pod
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import Root, Unit
from slinky.bridge.workload.job_spec import World, translate


def serving(name: str, *ports: int, phase: str = "Running", **more: Any) -> Pod:
    given = [{"containerPort": port, "hostPort": port, **more} for port in ports]
    return pod(name, node="n1", phase=phase, spec={"containers": [{"name": "c", "ports": given}]})


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (Port(80), Port(80), True),
        (Port(80), Port(81), False),
        (Port(80), Port(80, "UDP"), False),
        (Port(80, "TCP", "10.0.0.1"), Port(80, "TCP", "10.0.0.2"), False),
        (Port(80, "TCP", "10.0.0.1"), Port(80), True),
        (Port(80, "TCP", "::"), Port(80, "TCP", "10.0.0.2"), True),
    ],
)
def test_which_ports_clash(one: Port, two: Port, expected: bool) -> None:
    assert one.clashes(two) is two.clashes(one) is expected


def test_only_host_ports_count_and_only_while_containers_run() -> None:
    assert ports_of(pod(spec={"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]})) == []
    assert clash([Port(80)], [serving("a", 80)]) is not None
    assert clash([Port(80)], [serving("a", 80, phase="Succeeded"), serving("b", 81)]) is None


def test_pods_that_share_nodes_cannot_have_host_ports() -> None:
    root = Root({names.OPTION + "pods-per-node": "2"})
    with pytest.raises(OptionError, match="80/TCP of a"):
        translate(Unit("ns", "PodGroup", "g"), root, [serving("a", 80), serving("b", 80)], World(Settings()))
