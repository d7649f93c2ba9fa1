# SPDX-License-Identifier: Apache-2.0
"""The two kinds of nodes: in namespaces of this machine's kernel, or in a virtual machine with a kernel of its own.

A kind says how a node is described, what is made before it boots, and which machine it is. Everything else, such as
daemons, certificates, crashes and cuts, is the same for both.
"""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slinky.lab.kubernetes.node import LabNode, NodeCgroups, guest_root, root
from slinky.lab.lab_state import LabState
from slinky.lab.machine import cgroups, virtual_machine
from slinky.lab.machine.machine import Machine
from slinky.lab.machine.network import Network
from slinky.lab.machine.rootfs import RootFilesystem
from slinky.lab.machine.virtual_machine import VirtualMachine


class NodeKind(Protocol):
    """What differs between kinds of nodes."""

    def describe(self, number: int, network: Network) -> LabNode:
        """The description of a node."""
        ...

    def machine(self, node: LabNode) -> Machine:
        """The machine of a node, whether it runs or not."""
        ...

    def prepare(self, node: LabNode) -> RootFilesystem:
        """Make what a node needs before it boots, and return its root; later boots keep the disk it had."""
        ...


@dataclass(frozen=True)
class NamespaceKind:
    """Nodes in namespaces: they share the kernel and the cgroup hierarchies of this machine."""

    state: LabState

    def describe(self, number: int, network: Network) -> LabNode:
        """The description of a node, whose cgroups are below that of the lab."""
        name = f"node{number}"
        own = NodeCgroups(f"{cgroups.branch(self.state.name)}/{name}")
        return LabNode(number, network, self.state.folder / name, own, self.state.gpus)

    def machine(self, node: LabNode) -> Machine:
        """The namespaces of the node."""
        return Machine(node.name, node.folder)

    def prepare(self, node: LabNode) -> RootFilesystem:
        """Give the node the prepared images, and its cgroups."""
        artifacts = _paths(self.state)
        if not (node.folder / "containerd").exists():
            copy_image_store(artifacts["seed"] / "containerd", node.folder / "containerd")
        cgroups.create(node.cgroups.root)
        return root(node, artifacts["machine"] / "tree", artifacts["programs"] / "bin")


@dataclass(frozen=True)
class VirtualKind:
    """Nodes in virtual machines: they have cgroup version 2 only, and systemd as init."""

    state: LabState

    def describe(self, number: int, network: Network) -> LabNode:
        """The description of a node; its leases are longer, because an emulated processor is slow."""
        own = NodeCgroups("", driver=self.state.vm_cgroup_driver, is_version_2=True)
        folder = self.state.folder / f"node{number}"
        return LabNode(number, network, folder, own, self.state.gpus, kind="vm", lease_seconds=40)

    def machine(self, node: LabNode) -> VirtualMachine:
        """The guest of the node."""
        return VirtualMachine(node.name, node.folder, self.state.vm_accelerator)

    def prepare(self, node: LabNode) -> RootFilesystem:
        """Make the key with which commands reach the guest; its disk begins with the prepared images."""
        artifacts = _paths(self.state)
        if not (node.folder / "pki" / "ssh_key").exists():
            virtual_machine.write_ssh_key(node.folder / "pki")
        tree = artifacts["vm-tree"] / "tree"
        return guest_root(node, tree, artifacts["programs"] / "bin", artifacts["vm-disk"])


def kind_of(state: LabState, number: int) -> NodeKind:
    """The kind of a node, by its number: nodes in virtual machines come last."""
    return NamespaceKind(state) if number <= state.nodes - state.vms else VirtualKind(state)


def copy_image_store(seed: Path, target: Path) -> None:
    """Give a node its own image store: hard links for immutable files, copies of the two databases."""
    target.parent.mkdir(parents=True, exist_ok=True)
    linked = subprocess.run(["cp", "-al", str(seed), str(target)], capture_output=True, check=False)
    if linked.returncode:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", str(seed), str(target)], check=True)
        return
    for database in target.rglob("*.db"):
        if database.is_symlink():  # part of an image
            continue
        copy = database.with_suffix(".copy")
        shutil.copy2(database, copy)
        copy.rename(database)


def _paths(state: LabState) -> Mapping[str, Path]:
    return {name: Path(path) for name, path in state.artifacts.items()}
