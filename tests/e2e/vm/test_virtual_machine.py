# SPDX-License-Identifier: Apache-2.0
"""A node in a virtual machine has what every node has, and fails as every node fails."""

import pytest
from tests.support.waiting import until

from slinky.lab.kubernetes.node import SHARED, VOLUMES
from slinky.lab.lab import Lab

pytestmark = pytest.mark.fault


def test_the_node_has_the_gpus_and_the_storage_of_every_node(vm_lab: Lab) -> None:
    def slices() -> set[str]:
        items = vm_lab.api.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
        return {item["spec"].get("nodeName", "") for item in items}

    until(lambda: slices() >= {"node1", "node2"}, "GPUs of both nodes")
    (vm_lab.folder / "shared" / "all").write_text("of all nodes")
    (vm_lab.folder / "node2" / "volumes" / "own").write_text("of one node")
    seen = vm_lab.node_machine("node2").run(["cat", f"{SHARED}/all", f"{VOLUMES}/own"]).stdout
    assert seen == "of all nodesof one node"


def test_a_node_that_is_cut_off_takes_commands_and_one_that_crashed_boots_again(vm_lab: Lab) -> None:
    vm_lab.cut_node("node2")
    machine = vm_lab.node_machine("node2")
    assert machine.run(["cat", "/proc/sys/kernel/hostname"]).stdout == "node2\n"
    machine.run(["touch", "/var/lib/kubelet/kept"])
    machine.run(["sync"])
    vm_lab.heal_node("node2")
    vm_lab.crash_node("node2")
    assert not machine.alive()
    vm_lab.start_node("node2")
    until(lambda: vm_lab.node_machine("node2").has_file("/var/lib/kubelet/kept"), "the disk that the node had")
    vm_lab.wait_ready(["node2"], seconds=500)
