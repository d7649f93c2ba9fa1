# SPDX-License-Identifier: Apache-2.0
"""A site in a lab, installed as an administrator would: our charts and the real helm.

Every node is one host in Slurm: a worker of the operator runs its slurmd, for native jobs, and the bridge binds the
pods that Slurm places on the host to the same node. This needs a checkout, for the charts and the image of slinky.
"""

import subprocess
from typing import Any

import yaml

from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.machine.machine import until
from slinky.lab.prepare.images import REGISTRY, TAG, reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.prepare.wheels import CHECKOUT
from slinky.lab.progress import Progress

OPERATOR_SPACE, SPACE, RELEASE = "slinky", "slurm", "slurm"
#: The NodeSet of the demo and its partition, which native jobs and pods share.
POOL = "pool"
#: A NodeSet without workers, which the autoscaler creates for the jobs of its partition.
ELASTIC = "elastic"
#: Label of a worker with the name of its host in Slurm.
HOST_LABEL = "nodeset.slinky.slurm.net/pod-hostname"
#: The image of the manifests in examples/bridge.
EXAMPLE_IMAGE = "docker.io/library/busybox:1.37"
#: Slurm numbers GPUs by their device files. The lab's GPUs have none, so files that every container has stand for them.
GPU_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
#: Pods in this namespace get the bridge's scheduler name from admission.
MANAGED_SPACE = "bridged"


#: The values of every chart: the images that the nodes of a lab have.
IMAGES = {"global": {"registry": REGISTRY, "tag": TAG}}


def image(name: str) -> dict[str, str]:
    """One of our images, as a chart value."""
    return {"repository": f"{REGISTRY}/{name}", "tag": TAG}


def operator_values() -> dict[str, Any]:
    """The operator and its webhook, one replica each: a lab is small."""
    return {
        "operator": {"replicas": 1},
        "webhook": {"replicas": 1},
    }


def with_elastic_workers(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a cluster that also has a NodeSet without workers, which grows with the jobs of its partition.

    The lab has no further nodes, so its workers share the nodes of the others.
    """
    pool = values["nodesets"][POOL]
    elastic = {
        "slurmd": pool["slurmd"],
        "extraConf": "CPUs=1 RealMemory=512",
        "partition": {"enabled": True},
        "oversubscribeNode": True,
        "autoscaling": {"maxReplicas": 2, "scaleIn": {"idleFor": "2s"}},
    }
    return {**values, "nodesets": {POOL: {**pool, "oversubscribeNode": True}, ELASTIC: elastic}}


def with_page(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a cluster that also has the exporter with its page, which request nothing: a lab is small.

    A service account of the cluster's namespace logs in as the Slurm user of its name.
    """
    web = {"enabled": True, "userPrefix": f"system:serviceaccount:{SPACE}:"}
    return {**values, "exporter": {"enabled": True, "resources": {"requests": {"cpu": 0, "memory": 0}}, "web": web}}


def cluster_values() -> dict[str, Any]:
    """A cluster with one worker per node, which has the name of its node in Slurm.

    The worker requests little, so that the kubelet has room for pods: Slurm divides the node between pods and jobs.
    """
    conf = {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": 256,  # otherwise a job that names no memory gets all of it, and shares its host with nothing
        "ReturnToService": 2,
        "ProctrackType": "proctrack/linuxproc",
        "GresTypes": "gpu",
        "SchedulerParameters": "batch_sched_delay=0,bf_interval=5,bf_continue,sched_interval=10",
    }
    gpus = [f"Name=gpu Type=gpu.example.com File={path}" for path in GPU_FILES]
    return {
        "configFiles": {
            # The nodes of a lab may have cgroups of version 1, which slurmd in an ordinary pod cannot use.
            "cgroup.conf": "CgroupPlugin=disabled",
            "gres.conf": "\n".join(("AutoDetect=off", *gpus)),
        },
        "controller": {
            "extraConf": "\n".join(f"{key}={value}" for key, value in conf.items()),
            "persistence": {"resources": {"requests": {"storage": "1Gi"}}},
        },
        "nodesets": {
            POOL: {
                "scalingMode": "DaemonSet",
                "slurmd": {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
                "extraConf": f"Gres=gpu:gpu.example.com:{len(GPU_FILES)}",
                "partition": {"enabled": True, "configMap": {"Default": "YES", "MaxTime": "UNLIMITED"}},
            }
        },
    }


def bridge_values() -> dict[str, Any]:
    """The bridge in the cluster's namespace, with a token managed by the operator and the completer sidecar."""
    return {
        "schedulerConfig": {"partition": POOL, "mcsLabel": ""},
        "extraConfig": {"taint": "None"},
        "admission": {"managedNamespaces": [MANAGED_SPACE], "replicas": 1},
        "sharedConfig": {
            "token": {"create": True, "jwtKeyRef": {"name": f"{RELEASE}-auth-jwt", "key": "jwt.key"}},
        },
        "completer": {
            "enabled": True,
            "slurmctldHosts": [f"{RELEASE}-controller.{SPACE}"],
            "clusterName": RELEASE,
        },
    }


class LabCharts:
    """Our charts in a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def load_slinky(self, progress: Progress) -> None:
        """Put slinky's own image on every node, and name the image of the examples there, so that none is pulled."""
        self.lab.load_image(ArtifactInventory.of(self.lab.state.minor).slinky_image(progress))
        for node in self.nodes:
            tag = ["ctr", "-n", "k8s.io", "images", "tag", "--force", reference("busybox"), EXAMPLE_IMAGE]
            self.lab.node_machine(node).run(tag)

    @property
    def nodes(self) -> list[str]:
        """The names of the lab's nodes."""
        return [f"node{number}" for number in range(1, self.lab.state.nodes + 1)]

    def install_operator(self) -> None:
        """Install the CRDs, the operator and its webhook; returns once they serve."""
        self.helm("install", "slurm-operator-crds", "slurm-operator-crds", OPERATOR_SPACE)
        self.helm("install", "slurm-operator", "slurm-operator", OPERATOR_SPACE, operator_values())

    def install_cluster(self, *, elastic: bool = False) -> None:
        """Install a Slurm cluster, on request with elastic workers and the page; returns once every node is a host."""
        values = with_page(with_elastic_workers(cluster_values())) if elastic else cluster_values()
        self.helm("install", RELEASE, "slurm", SPACE, values)
        self.wait_ready("controllers", "restapis", "nodesets")
        until(
            lambda: set(self.nodes) <= self.idle_hosts(), "nodes to become Slurm hosts", 60, lambda: self.slurm("sinfo")
        )

    def install_bridge(self) -> None:
        """Install the bridge, which finds the hosts of the workers by the names of their nodes."""
        self.helm("install", "slurm-bridge", "slurm-bridge", SPACE, bridge_values())

    def idle_hosts(self) -> set[str]:
        """The idle hosts of Slurm."""
        return set(self.slurm("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())

    def wait_ready(self, *kinds: str) -> None:
        """Wait for the condition Ready of every object of these kinds."""
        for kind in kinds:
            self.lab.kubectl("wait", "-n", SPACE, kind, "--all", "--for=condition=Ready", "--timeout=180s")

    def slurm(self, *argv: str) -> str:
        """Run a Slurm command where slurmctld runs."""
        return self.lab.kubectl("exec", "-n", SPACE, f"{RELEASE}-controller-0", "-c", "slurmctld", "--", *argv)

    def on_worker(self, host: str, *argv: str) -> str:
        """Run a command in the worker of a Slurm host."""
        pod = self.lab.kubectl("get", "pods", "-n", SPACE, "-l", f"{HOST_LABEL}={host}", "-o", "name").strip()
        return self.lab.kubectl("exec", "-n", SPACE, pod, "-c", "slurmd", "--", *argv)

    def helm(self, verb: str, release: str, chart: str, space: str, values: dict[str, Any] | None = None) -> None:
        """Install or upgrade a chart and wait until its objects are ready."""
        arguments = (verb, release, str(CHECKOUT / "charts" / chart), "--create-namespace", "--values=-")
        self.run_helm(*arguments, space=space, given=yaml.safe_dump(IMAGES | (values or {})))

    def uninstall(self, release: str, space: str, *arguments: str) -> None:
        """Remove a release and wait until its objects are gone."""
        self.run_helm("uninstall", release, *arguments, space=space)

    def run_helm(self, *arguments: str, space: str, given: str = "") -> str:
        """Run a helm command in a namespace and return its output."""
        home = self.lab.folder / "helm"
        settings = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        settings |= self.lab.client_settings
        settings["HOME"] = str(home)  # otherwise helm caches the API in the current folder
        common = ["--namespace", space, "--kubeconfig", str(self.lab.kubeconfig), "--timeout=8m"]
        wait = [] if arguments[0] == "test" else ["--wait=legacy" if arguments[0] != "uninstall" else "--wait"]
        done = subprocess.run(
            [self.lab.artifact("helm") / "helm", *arguments, *common, *wait],
            input=given,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LabError(
                f"helm {' '.join(arguments[:2])}: {done.stderr.strip()[-1500:]}", f"kubectl get pods -n {space}"
            )
        return done.stdout
