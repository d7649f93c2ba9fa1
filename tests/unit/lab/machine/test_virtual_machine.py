# SPDX-License-Identifier: Apache-2.0
"""Command lines and files of nodes in virtual machines; that they boot is shown by tests/e2e/vm."""

import shlex
from pathlib import Path

import pytest
import yaml

from slinky.lab.bringup import LabOptions
from slinky.lab.errors import LabError
from slinky.lab.kubernetes import node
from slinky.lab.lab_state import LabState
from slinky.lab.machine import virtual_machine
from slinky.lab.machine.machine import Machine
from slinky.lab.machine.network import Network
from slinky.lab.machine.virtual_machine import VirtualMachine, qemu_command, systemd_run, write_ssh_key
from slinky.lab.node_kinds import NamespaceKind, VirtualKind, kind_of
from slinky.lab.prepare.inventory import ArtifactInventory

STATE = LabState("lab", "1.36", 0, 1, nodes=3, vms=1, artifacts={"vm-tree": "/t", "vm-disk": "/d", "programs": "/p"})


def test_nodes_in_virtual_machines_are_the_last_ones() -> None:
    kinds = [type(kind_of(STATE, number)) for number in (1, 2, 3)]
    assert kinds == [NamespaceKind, NamespaceKind, VirtualKind]


@pytest.mark.parametrize(("driver", "systemd"), [("systemd", "true"), ("cgroupfs", "false")])
def test_kubelet_and_containerd_use_the_same_cgroup_driver(driver: str, systemd: str) -> None:
    state = LabState("lab", "1.36", 0, 1, nodes=1, vms=1, vm_cgroup_driver=driver)  # type: ignore[arg-type]
    description = kind_of(state, 1).describe(1, Network(0))
    files = node.config_files(description)
    kubelet = yaml.safe_load(files["/etc/slinky/kubelet.yaml"])
    assert (kubelet["cgroupDriver"], kubelet["cgroupRoot"], kubelet["failCgroupV1"]) == (driver, "/", True)
    assert files["/etc/containerd/config.toml"].count(f"SystemdCgroup = {systemd}") == 2


def test_a_node_is_labelled_with_its_kind() -> None:
    labels = [node.daemons(kind_of(STATE, number).describe(number, Network(0)))["kubelet"] for number in (1, 3)]
    assert [
        f"--node-labels={node.KIND_LABEL}={kind}" in argv
        for kind, argv in zip(("namespaces", "vm"), labels, strict=True)
    ] == [
        True,
        True,
    ]


def test_a_guest_gets_its_configuration_and_its_own_disk(tmp_path: Path) -> None:
    description = node.LabNode(2, Network(4), tmp_path / "node2", node.NodeCgroups("", is_version_2=True))
    root = node.guest_root(description, Path("/tree"), Path("/bin"), Path("/disk"))
    assert "addr add 10.66.4.12/24 dev eth0" in root.files["/etc/slinky/network"]
    assert "net.ipv4.ip_forward=1" in root.files["/etc/slinky/sysctl.conf"].splitlines()
    targets = {mount.target: mount.source for mount in root.mounts}
    assert targets["/mnt/backing-disk"] == "/disk"
    assert targets["/mnt/node-disk"] == str(tmp_path / "node2" / "disk")
    assert targets["/mnt/volumes/slinky-shared"] == str(tmp_path / "shared")
    assert targets["/mnt/volumes/slinky-volumes"] == str(tmp_path / "node2" / "volumes")


@pytest.mark.parametrize("accelerator", ["kvm", "tcg"])
def test_qemu_boots_the_shared_root_with_two_network_cards(accelerator: str) -> None:
    argv = qemu_command("node3", accelerator, "0a1b2c3d-0000-0000-0000-000000000000")
    kernel = argv[argv.index("-append") + 1].split()
    assert {"rootfstype=virtiofs", "root=root", "systemd.hostname=node3"} <= set(kernel)
    assert argv[argv.index("-accel") + 1].startswith(accelerator)
    cards = [word for word in argv if word.startswith("virtio-net-pci")]
    assert cards == [
        "virtio-net-pci,netdev=tap0,mac=52:0a:1b:2c:3d:00",
        "virtio-net-pci,netdev=management,mac=52:0a:1b:2c:3d:01",
    ]


def test_a_daemon_of_a_guest_is_a_service_with_a_log_that_the_host_reads() -> None:
    argv = systemd_run("kubelet", ["kubelet", "--v=1"], {"PATH": "/bin"}, 0)
    assert "--property=StandardOutput=append:/var/log/slinky/kubelet.log" in argv
    assert argv[argv.index("--") :] == ["--", "/usr/bin/env", "PATH=/bin", "kubelet", "--v=1"]


def test_words_of_a_command_reach_the_guest_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "pid", lambda _: 7)
    argv = ["sh", "-c", "echo 'a  b' $HOME; exit 7"]
    command = VirtualMachine("node1", tmp_path, "tcg").enter_command(argv, env={"A": "b c"})
    assert command[:2] == ["nsenter", "--target=7"]
    words = shlex.split(command[-1])
    assert words[words.index("A=b c") + 1 :] == argv


def test_the_key_of_a_guest_is_readable_by_root_only(tmp_path: Path) -> None:
    write_ssh_key(tmp_path)
    assert (tmp_path / "ssh_key").stat().st_mode & 0o777 == 0o600
    public = (tmp_path / "ssh_key.pub").read_text().strip()
    assert (tmp_path / "known_hosts").read_text() == f"169.254.77.2 {public}\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (LabOptions(vms=17), "--vms is 17, which is not between 0 and 16"),
        (LabOptions(nodes=99, vms=2), "--nodes and --vms are 101 together"),
        (LabOptions(vms=1, vm_cgroup_driver="other"), "--vm-cgroup-driver other is not known"),
    ],
)
def test_impossible_virtual_machines_are_refused(options: LabOptions, complaint: str) -> None:
    with pytest.raises(LabError) as refused:
        options.check()
    assert complaint in str(refused.value)


def test_an_unknown_accelerator_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kvm", "tcg"):
        monkeypatch.setenv(virtual_machine.ACCELERATOR_VARIABLE, name)
        assert virtual_machine.choose_accelerator(tmp_path) == name
    monkeypatch.setenv(virtual_machine.ACCELERATOR_VARIABLE, "xen")
    with pytest.raises(LabError, match="set it to kvm or tcg"):
        virtual_machine.choose_accelerator(tmp_path)


def test_artifacts_of_virtual_machines_are_prepared_only_where_they_are_wanted() -> None:
    inventory = ArtifactInventory.of()
    assert set(inventory.selected(vms=True)) - set(inventory.selected(vms=False)) == {"vm-tree", "vm-disk"}
