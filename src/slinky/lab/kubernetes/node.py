# SPDX-License-Identifier: Apache-2.0
"""A node of a lab: a real kubelet with containerd, kube-proxy and optional fake GPUs.

Paths inside a node are the usual ones, so plugins, sockets and CDI work unchanged. Folders in which containerd and the
kubelet mount overlays are bound from the disk, because the root of the node is an overlay itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from slinky.lab.machine import virtual_machine
from slinky.lab.machine.network import DNS_SERVICE, Network, guest_commands
from slinky.lab.machine.rootfs import Mount, RootFilesystem, kernel_mounts
from slinky.lab.prepare.images import reference

WRITABLE_CGROUP = "writable-cgroup"
VOLUMES = "/var/lib/slinky-volumes"
#: All nodes of a lab see the same folder here, as if a network file system were mounted.
SHARED = "/var/lib/slinky-shared"
_BOUND = {"kubelet": "/var/lib/kubelet", "containerd": "/var/lib/containerd", "log/pods": "/var/log/pods",
          "log/containers": "/var/log/containers", "volumes": VOLUMES}  # fmt: skip

# The kubelet would set these for the whole machine; bound files show it the expected values instead.
_SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}


#: A label of every node: `namespaces` or `vm`.
KIND_LABEL = "lab.slinky.slurm.net/machine"


@dataclass(frozen=True)
class NodeCgroups:
    """How the kubelet and the containerd of a node manage cgroups."""

    root: str
    driver: Literal["cgroupfs", "systemd"] = "cgroupfs"
    is_version_2: bool = False


@dataclass(frozen=True)
class LabNode:
    """One node of a lab, by number."""

    number: int
    network: Network
    folder: Path
    cgroups: NodeCgroups
    gpus: int = 0
    kind: str = "namespaces"
    lease_seconds: int = 8

    @property
    def name(self) -> str:
        """The node's name in Kubernetes, and its host name."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        """The node's address."""
        return self.network.node(self.number)


def root(node: LabNode, tree: Path, binaries: Path) -> RootFilesystem:
    """The file system of a node in namespaces."""
    for folder in (shared(node), *(node.folder / name for name in _BOUND)):
        folder.mkdir(parents=True, exist_ok=True)
    sysctls = node.folder / "sysctl"
    sysctls.mkdir(exist_ok=True)
    for name, value in _SYSCTLS.items():
        (sysctls / name.replace("/", ".")).write_text(f"{value}\n")
    return RootFilesystem(
        tree=str(tree),
        point=str(node.folder / "root"),
        upper=str(node.folder / "changes"),
        mounts=(
            *kernel_mounts(),
            *(Mount("bind", f"/proc/sys/{name}", str(sysctls / name.replace("/", "."))) for name in _SYSCTLS),
            *(Mount("bind", target, str(node.folder / name)) for name, target in _BOUND.items()),
            Mount("bind", SHARED, str(shared(node))),
            *program_mounts(node, binaries),
        ),
        files=config_files(node),
        hostname=node.name,
        shared=True,
    )


def guest_root(node: LabNode, tree: Path, binaries: Path, backing_disk: Path) -> RootFilesystem:
    """The file system of a node in a virtual machine, and of the namespaces around it."""
    own = {virtual_machine.LOGS: node.folder / "log", virtual_machine.NODE_DISK: node.folder / "disk",
           f"{virtual_machine.VOLUMES}/{Path(VOLUMES).name}": node.folder / "volumes",
           f"{virtual_machine.VOLUMES}/{Path(SHARED).name}": shared(node)}  # fmt: skip
    for folder in own.values():
        folder.mkdir(parents=True, exist_ok=True)
    sysctls = {**_SYSCTLS, "net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "0"}
    return RootFilesystem(
        tree=str(tree),
        point=str(node.folder / "root"),
        upper=str(node.folder / "changes"),
        mounts=(
            *kernel_mounts(),
            *(Mount("bind", target, str(folder)) for target, folder in own.items()),
            Mount("bind", virtual_machine.BACKING_DISK, str(backing_disk)),
            *program_mounts(node, binaries),
        ),
        files={
            **config_files(node),
            "/etc/slinky/network": guest_commands(node.network, node.address),
            "/etc/slinky/sysctl.conf": "".join(f"{key.replace('/', '.')}={value}\n" for key, value in sysctls.items()),
            "/etc/slinky/ssh_config": virtual_machine.SSH_CONFIG,
        },
        hostname=node.name,
    )


def shared(node: LabNode) -> Path:
    """The folder of the lab that all nodes see."""
    return node.folder.parent / "shared"


def program_mounts(node: LabNode, binaries: Path) -> tuple[Mount, ...]:
    """The programs and certificates of a node."""
    return (Mount("bind", "/opt/slinky/bin", str(binaries)), Mount("bind", "/etc/slinky/pki", str(node.folder / "pki")))


def config_files(node: LabNode) -> dict[str, str]:
    """The configuration files of a node's daemons, by path."""
    return {
        "/etc/containerd/config.toml": containerd(node.cgroups),
        "/etc/cni/net.d/10-bridge.conflist": cni(node),
        "/etc/slinky/kubelet.yaml": yaml.safe_dump(kubelet(node)),
        "/etc/slinky/kube-proxy.yaml": yaml.safe_dump(kube_proxy(node)),
        "/etc/resolv.conf": "",
        "/etc/hosts": f"127.0.0.1 localhost\n{node.address} {node.name}\n",  # containerd forwards ports to localhost
    }


def daemons(node: LabNode) -> dict[str, list[str]]:
    """The processes of a node, in order."""
    commands = {
        "containerd": ["containerd", "--config", "/etc/containerd/config.toml"],
        "kubelet": [
            "kubelet",
            "--config=/etc/slinky/kubelet.yaml",
            "--kubeconfig=/etc/slinky/pki/node.kubeconfig",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
            f"--node-labels={KIND_LABEL}={node.kind}",
            "--v=1",
        ],
        "kube-proxy": ["kube-proxy", "--config=/etc/slinky/kube-proxy.yaml"],
    }
    if node.gpus:
        commands["lab-gpu"] = [
            "lab-gpu",
            f"--node-name={node.name}",
            f"--devices={node.gpus}",
            "--kubeconfig=/etc/slinky/pki/node.kubeconfig",
        ]
    return commands


def containerd(cgroups: NodeCgroups) -> str:
    """The configuration of containerd.

    `restrict_oom_score_adj`: without CAP_SYS_RESOURCE a score cannot be lowered, and runc would fail every pod.
    The handler `writable-cgroup` gives a container write access to its own cgroups, for the RuntimeClass of that name.
    """
    unused = ("internal.v1.opt", "snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper",
              "snapshotter.v1.erofs", "snapshotter.v1.blockfile", "tracing.processor.v1.otlp")  # fmt: skip
    disabled = ", ".join(f'"io.containerd.{name}"' for name in unused)
    driver = "true" if cgroups.driver == "systemd" else "false"
    # With cgroup version 1 containerd refuses such a runtime, and all others with it.
    writable = _WRITABLE_RUNTIME.format(name=WRITABLE_CGROUP, driver=driver) if cgroups.is_version_2 else ""
    return f"""\
version = 3
disabled_plugins = [{disabled}]

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{reference("pause")}"

[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = {"false" if cgroups.is_version_2 else "true"}
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = {driver}
{writable}"""


_WRITABLE_RUNTIME = """\
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}]
      runtime_type = "io.containerd.runc.v2"
      cgroup_writable = true
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}.options]
        SystemdCgroup = {driver}
"""


def cni(node: LabNode) -> str:
    """The CNI configuration: one bridge per node; the control plane routes between nodes."""
    return f"""\
{{"cniVersion": "1.0.0", "name": "lab", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": {{"type": "host-local", "dataDir": "/run/cni/ipam",
             "ranges": [[{{"subnet": "{node.network.node_pods(node.number)}"}}]],
             "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
"""


def kubelet(node: LabNode) -> dict[str, object]:
    """The configuration of the kubelet: cgroup version 1 allowed; images are never removed, as there is no registry."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": node.cgroups.is_version_2,
        "cgroupDriver": node.cgroups.driver,
        "cgroupRoot": f"/{node.cgroups.root}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "address": node.address,
        "tlsCertFile": "/etc/slinky/pki/serving.crt",
        "tlsPrivateKeyFile": "/etc/slinky/pki/serving.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/slinky/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_SERVICE],
        "resolvConf": "",
        "failSwapOn": False,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
        "protectKernelDefaults": True,
        "nodeLeaseDurationSeconds": node.lease_seconds,
        "nodeStatusReportFrequency": "1m",
        "nodeStatusUpdateFrequency": f"{node.lease_seconds // 4}s",
        # Changed Secrets and ConfigMaps reach running pods within seconds and not within a minute and a half.
        "syncFrequency": "5s",
        # A container that fails again is restarted after two seconds and not after ten to three hundred.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "maxPods": 200,
    }


def kube_proxy(node: LabNode) -> dict[str, object]:
    """The configuration of kube-proxy; conntrack limits belong to the host and cannot be set from a namespace."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": "/etc/slinky/pki/kube-proxy.kubeconfig"},
        "clusterCIDR": node.network.pods,
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
