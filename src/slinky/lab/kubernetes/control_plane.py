# SPDX-License-Identifier: Apache-2.0
"""Command lines and configuration of the control plane.

The flags are those that made a measured difference: short timers, so that a dead node is detected in seconds, generous
client limits, no leader election, and every feature gate that gang scheduling needs.
"""

from dataclasses import dataclass
from pathlib import Path

from slinky.lab.machine.network import DNS_SERVICE, FIRST_SERVICE, SERVICES

ISSUER = "https://kubernetes.default.svc.cluster.local"

#: The environment of the daemons: collecting garbage less often saves about a tenth of their processor time.
ENVIRONMENT = {"GOGC": "400"}


@dataclass(frozen=True)
class Features:
    """Feature gates and APIs that are enabled in one minor version."""

    gates: tuple[str, ...]
    apis: tuple[str, ...]

    def flag(self) -> str:
        """The feature gates as a flag of every component."""
        return "--feature-gates=" + ",".join(f"{gate}=true" for gate in self.gates)


#: An API server refuses to start with a gate that it does not know.
FEATURES = {
    "1.33": Features(
        gates=("DynamicResourceAllocation", "HPAScaleToZero"),
        apis=("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
    ),
    "1.35": Features(
        gates=(
            "GenericWorkload", "GangScheduling", "DRADeviceTaints", "DRADeviceTaintRules", "DRAExtendedResource",
            "DRAConsumableCapacity", "DRAPartitionableDevices", "HPAScaleToZero",
        ),
        apis=("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3",
              "scheduling.k8s.io/v1alpha1"),
    ),
    "1.36": Features(
        gates=(
            "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption",
            "WorkloadWithJob", "DRAWorkloadResourceClaims", "DRADeviceTaintRules", "DRAListTypeAttributes",
            "HPAScaleToZero",
        ),
        apis=("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3",
              "scheduling.k8s.io/v1alpha2"),
    ),
    "1.37": Features(
        gates=(
            "GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadWithJob", "DRAWorkloadResourceClaims",
            "DRAListTypeAttributes",
        ),
        apis=("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3",
              "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ControlPlane:
    """Programs, files and addresses of a control plane."""

    binaries: Path
    etcd_binary: Path
    pki: Path
    data: Path
    configs: Path
    address: str
    port: int
    etcd_port: int
    minor: str = "1.36"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{self.address}:{self.port}"

    @property
    def server_hosts(self) -> list[str]:
        """Every name and address of the API server."""
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        return [*names, "kubernetes.default.svc.cluster.local", "127.0.0.1", self.address, FIRST_SERVICE]

    @property
    def features(self) -> Features:
        """The features of this version."""
        return FEATURES[self.minor]

    def kubeconfig(self, name: str) -> Path:
        """The file that holds a component's credentials."""
        return self.configs / f"{name}.kubeconfig"


def etcd(plane: ControlPlane) -> list[str]:
    """Without fsync: a lab is thrown away, never recovered from a power cut."""
    client = f"http://127.0.0.1:{plane.etcd_port}"
    # Port 0 lets the kernel choose; one member has no peers to tell.
    peer = "http://127.0.0.1:0"
    return [
        str(plane.etcd_binary),
        "--name=lab",
        f"--data-dir={plane.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(plane: ControlPlane, *, nodes: bool) -> list[str]:
    """With `nodes`, everything that real kubelets and pods behind Services need; without, the plain server."""
    pki = plane.pki
    plain = [
        str(plane.binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{plane.etcd_port}",
        f"--bind-address={plane.address}",
        f"--secure-port={plane.port}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        "--runtime-config=" + ",".join(f"{api}=true" for api in plane.features.apis),
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        plane.features.flag(),
        "--v=1",
    ]
    if not nodes:
        # A loopback address may not be published as the endpoint of the kubernetes Service.
        return [*plain, "--endpoint-reconciler-type=none"]
    return [
        *plain,
        f"--advertise-address={plane.address}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        # Webhooks and aggregated APIs are dialled at pod addresses, which this machine routes; it runs no kube-proxy.
        "--enable-aggregator-routing=true",
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
    ]


def controller_manager(plane: ControlPlane, pods: str, grace_seconds: int = 12) -> list[str]:
    """The controller manager, which takes a node for dead after `grace_seconds` without a lease.

    With default client limits the first service account appears five seconds later.
    """
    config = plane.kubeconfig("controller-manager")
    return [
        str(plane.binaries / "kube-controller-manager"),
        *(f"--{role}kubeconfig={config}" for role in ("", "authentication-", "authorization-")),
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={plane.pki / 'sa.key'}",
        f"--root-ca-file={plane.pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={plane.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={plane.pki / 'ca.key'}",
        f"--requestheader-client-ca-file={plane.pki / 'front-proxy-ca.crt'}",
        f"--cluster-cidr={pods}",
        "--allocate-node-cidrs=false",
        f"--service-cluster-ip-range={SERVICES}",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={grace_seconds}s",
        # Autoscaling in tests should not wait for minutes.
        "--horizontal-pod-autoscaler-sync-period=5s",
        plane.features.flag(),
        "--v=1",
    ]


def scheduler(plane: ControlPlane) -> list[str]:
    """The scheduler; its client limits are in the configuration file."""
    config = plane.kubeconfig("scheduler")
    return [
        str(plane.binaries / "kube-scheduler"),
        f"--config={plane.configs / 'scheduler.yaml'}",
        *(f"--{role}-kubeconfig={config}" for role in ("authentication", "authorization")),
        "--bind-address=127.0.0.1",
        plane.features.flag(),
        "--v=1",
    ]


def scheduler_config(plane: ControlPlane) -> dict[str, object]:
    """The configuration of the scheduler, which with default limits binds only 50 pods per second."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig("scheduler")), "qps": 2000, "burst": 4000},
        "leaderElection": {"leaderElect": False},
    }


def corefile(plane: ControlPlane) -> str:
    """The configuration of CoreDNS: cluster names only, because pods of a lab cannot reach outside."""
    return f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {plane.address}
    errors
    ready 127.0.0.1:8181
    kubernetes {{
        kubeconfig {plane.kubeconfig("admin")}
        pods insecure
        ttl 1
    }}
    loadbalance
}}
.:53 {{
    bind {plane.address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def dns_manifests(plane: ControlPlane) -> list[dict[str, object]]:
    """The Service and endpoints of the DNS process of the control plane."""
    ports = [
        {"name": name, "protocol": protocol, "port": 53} for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    where = {"name": "kube-dns", "namespace": "kube-system"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": where,
            "spec": {"clusterIP": DNS_SERVICE, "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**where, "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [plane.address], "conditions": {"ready": True}}],
        },
    ]
