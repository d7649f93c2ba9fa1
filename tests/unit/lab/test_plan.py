# SPDX-License-Identifier: Apache-2.0
"""What a lab will be is decided by pure functions; here are their laws."""

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from slinky.lab import paths
from slinky.lab.bringup import LabOptions
from slinky.lab.errors import LabError
from slinky.lab.kubernetes import addons, control_plane, node, pki
from slinky.lab.kubernetes.node import LabNode, NodeCgroups
from slinky.lab.machine import cgroups
from slinky.lab.machine.network import INDEXES, SERVICES, Network
from slinky.lab.machine.rootfs import Mount
from slinky.lab.prepare import golang
from slinky.lab.slurm import conf

PLANE = control_plane.ControlPlane(
    Path("/b"), Path("/e/etcd"), Path("/p"), Path("/d"), Path("/c"), "10.66.3.1", 6443, 2379
)


def test_no_two_labs_share_an_address() -> None:
    ranges = [ipaddress.ip_network(part) for index in INDEXES for part in (Network(index).prefix, Network(index).pods)]
    ranges.append(ipaddress.ip_network(SERVICES))
    assert all(not one.overlaps(other) for at, one in enumerate(ranges) for other in ranges[at + 1 :])


def test_every_address_of_a_lab_is_inside_its_ranges() -> None:
    network = Network(7)
    machines = [network.control, network.slurm, network.host, *(network.node(number) for number in range(1, 101))]
    assert len(set(machines)) == len(machines)
    assert all(ipaddress.ip_address(one) in ipaddress.ip_network(network.prefix) for one in machines)
    assert ipaddress.ip_network(network.node_pods(100)).subnet_of(ipaddress.ip_network(network.pods))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (LabOptions(name="Bad Name"), "lab name 'Bad Name' is not usable"),
        (LabOptions(name="x" * 21), "is not usable"),
        (LabOptions(minor="1.20"), "Kubernetes 1.20 is not supported by the lab"),
        (LabOptions(slurm="inside"), "--slurm inside is not known"),
        (LabOptions(slurm="alone"), "--slurm alone has no Kubernetes that nodes could join"),
        (LabOptions(nodes=-1), "--nodes is -1, which is not between 0 and 100"),
        (LabOptions(slurm_nodes=65, slurm="beside"), "--slurm-nodes is 65"),
        (LabOptions(external_nodes=1), "--external-nodes needs a Slurm"),
    ],
)
def test_an_impossible_lab_is_refused_before_anything_is_touched(options: LabOptions, complaint: str) -> None:
    with pytest.raises(LabError) as refused:
        options.check()
    assert complaint in str(refused.value)


def test_only_a_known_kubernetes_is_built() -> None:
    assert golang.release("1.36").minor == "1.36"
    with pytest.raises(LabError, match=r"choose one of: 1\.36"):
        golang.release("9.99")


def test_the_programs_say_their_version_in_both_packages() -> None:
    stamps = golang.release("1.36").stamps()
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.4" in stamps
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in stamps


def test_a_named_folder_without_the_commands_is_an_error_and_not_a_surprise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLINKY_KUBE_BIN", str(tmp_path))
    with pytest.raises(LabError, match="does not hold all of kube-apiserver"):
        golang._existing_binaries(golang.release("1.36"))


def test_every_feature_gate_is_on_in_every_component() -> None:
    commands = [
        control_plane.apiserver(PLANE, nodes=True),
        control_plane.controller_manager(PLANE, "10.1.0.0/16"),
        control_plane.scheduler(PLANE),
    ]
    gates = {next(flag for flag in command if flag.startswith("--feature-gates=")) for command in commands}
    assert len(gates) == 1
    assert "GangScheduling=true" in gates.pop()


def test_a_plain_server_publishes_no_loopback_endpoint_and_talks_to_no_kubelet() -> None:
    plain = control_plane.apiserver(PLANE, nodes=False)
    assert "--endpoint-reconciler-type=none" in plain
    assert not any("kubelet" in flag for flag in plain)


def test_kubelets_never_share_a_cgroup_root(tmp_path: Path) -> None:
    roots = {
        node.kubelet(LabNode(number, Network(0), tmp_path, NodeCgroups(f"slinky-a/node{number}")))["cgroupRoot"]
        for number in (1, 2)
    }
    assert roots == {"/slinky-a/node1", "/slinky-a/node2"}


def test_a_node_without_gpus_runs_no_gpu_driver(tmp_path: Path) -> None:
    assert "lab-gpu" not in node.daemons(LabNode(1, Network(0), tmp_path, NodeCgroups("c")))
    assert "--devices=4" in node.daemons(LabNode(1, Network(0), tmp_path, NodeCgroups("c"), gpus=4))["lab-gpu"]


def test_cgroup_hierarchies_of_both_versions_are_found() -> None:
    mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\nproc /proc proc rw 0 0\n"
    mounts += "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    assert cgroups.hierarchies(mounts) == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified")]


def test_version_2_controllers_are_delegated_in_one_write_at_every_level(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "slinky-a", tmp_path / "slinky-a" / "node1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    cgroups.create("slinky-a/node1", [tmp_path])
    delegated = "+cpuset +cpu +io +memory +hugetlb +pids"
    assert (tmp_path / "cgroup.subtree_control").read_text() == delegated
    assert (tmp_path / "slinky-a" / "cgroup.subtree_control").read_text() == delegated
    assert not (tmp_path / "slinky-a" / "node1" / "cgroup.subtree_control").exists()


def test_a_node_without_controllers_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "cgroup.controllers").write_text("cpu pids\n")
    with pytest.raises(LabError, match="node1 lacks the controllers cpuset, memory"):
        cgroups.create("node1", [tmp_path])


def test_a_hybrid_host_needs_no_version_2_controllers(tmp_path: Path) -> None:
    unified, memory = tmp_path / "unified", tmp_path / "memory"
    for top in (unified, memory):
        top.mkdir()
    (unified / "cgroup.controllers").write_text("hugetlb misc\n")
    cgroups.create("slinky-a/node1", [memory, unified])
    assert (unified / "slinky-a" / "node1").is_dir()
    assert not (unified / "cgroup.subtree_control").exists()


def test_a_webhook_is_called_by_address_and_never_for_foreign_pods() -> None:
    hook = {"name": "mpod.kb.io", "clientConfig": {"service": {"path": "/mutate--v1-pod"}}, "failurePolicy": "Fail"}
    manifest = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "mutating"}, "webhooks": [hook]}
    made = addons.by_address("jobset", addons.PROJECTS["jobset"], manifest, "https://10.0.0.1:9443", b"pem")
    assert made["metadata"]["name"] == "jobset-mutating"
    (rewritten,) = made["webhooks"]
    assert rewritten["clientConfig"]["url"] == "https://10.0.0.1:9443/mutate--v1-pod"
    assert rewritten["objectSelector"]["matchExpressions"][0]["key"] == "jobset.sigs.k8s.io/jobset-name"


@pytest.mark.parametrize("hosts", [0, 1, 5])
def test_slurm_is_configured_for_any_number_of_hosts(hosts: int) -> None:
    files = conf.configuration("10.66.0.2", hosts)
    assert ("PartitionName=work" in files["slurm.conf"]) == bool(hosts)
    assert "SlurmctldHost=ctl(10.66.0.2)" in files["slurm.conf"]
    assert "=\n" not in files["slurm.conf"], "an empty value is a parse error"
    assert "defer" not in files["slurm.conf"], "it makes allocate block"


def test_mounts_become_commands() -> None:
    assert Mount("bind", "/b", "/a").command(Path("/r")) == ["mount", "--bind", "/a", "/r/b"]
    assert Mount("tmpfs", "/t", options="size=1m").command(Path("/r")) == [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        "size=1m",
        "tmpfs",
        "/r/t",
    ]


def test_folders_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLINKY_CACHE", "/elsewhere")
    assert paths.cache() == Path("/elsewhere")
    monkeypatch.delenv("SLINKY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert paths.cache() == Path("/xdg/slinky")


def test_keys_are_private_and_certificates_name_their_hosts(tmp_path: Path) -> None:
    authority = pki.Authority(tmp_path, "ca")
    authority.issue("server", "a-server", "an-organization", ["localhost", "10.0.0.1"])
    authority.kubeconfig(tmp_path / "config", "server", "https://10.0.0.1")
    pki.service_account_keys(tmp_path)
    for name in ("ca.key", "server.key", "sa.key", "config"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0, name
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
    serialization.load_pem_public_key((tmp_path / "sa.pub").read_bytes())
