# SPDX-License-Identifier: Apache-2.0
"""A site in a lab, installed as an administrator would: our charts and the real helm.

The operator runs a Slurm cluster as pods on some nodes; the bridge lets the same Slurm schedule pods on the others.
This needs a checkout, for the charts and the image of slinky.
"""

import subprocess
from typing import Any

import yaml

from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.machine.machine import until
from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.prepare.wheels import CHECKOUT
from slinky.lab.progress import Progress

OPERATOR_SPACE, SPACE, RELEASE, WORKERS, PARTITION = "slinky", "slurm", "slurm", "worker", "slurm-bridge"
BRIDGED = "scheduler.slinky.slurm.net/external-node"
#: Pods in this namespace get the bridge's scheduler name from admission.
MANAGED_SPACE = "bridged"


def image(name: str) -> dict[str, str]:
    """One of our images, as a chart value."""
    repository, _, tag = reference(name).rpartition(":")
    return {"repository": repository, "tag": tag}


def operator_values() -> dict[str, Any]:
    """The operator and its webhook, one replica each: a lab is small."""
    return {
        "operator": {"image": image("slinky"), "replicas": 1},
        "webhook": {"image": image("slinky"), "replicas": 1},
    }


def cluster_values(workers: int) -> dict[str, Any]:
    """A cluster with workers, and a partition for the hosts that the bridge registers."""
    conf = {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "ReturnToService": 2,
        "ProctrackType": "proctrack/linuxproc",
        "GresTypes": "gpu",
        "SchedulerParameters": "batch_sched_delay=0,bf_interval=5,bf_continue,sched_interval=10",
    }
    # The bridge sets the partitions of a host as features; a NodeSet of that feature defines the partition.
    bridged = f"NodeSet={PARTITION} Feature={PARTITION}\nPartitionName={PARTITION} Nodes={PARTITION} MaxTime=UNLIMITED"
    return {
        # The nodes of a lab may have cgroups of version 1, which slurmd in an ordinary pod cannot use.
        "configFiles": {"cgroup.conf": "CgroupPlugin=disabled"},
        "controller": {
            "slurmctld": {"image": image("slurmctld")},
            "extraConf": "\n".join(f"{key}={value}" for key, value in conf.items()) + f"\n{bridged}\n",
            "persistence": {"resources": {"requests": {"storage": "1Gi"}}},
        },
        "restapi": {"slurmrestd": {"image": image("slurmrestd")}},
        "nodesets": {
            WORKERS: {
                "replicas": workers,
                "slurmd": {"image": image("slurmd"), "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                "partition": {"enabled": True, "configMap": {"Default": "YES", "MaxTime": "UNLIMITED"}},
            }
        },
    }


def bridge_values() -> dict[str, Any]:
    """The bridge in the cluster's namespace, with a token managed by the operator and the completer sidecar."""
    return {
        "scheduler": {"image": image("slinky")},
        "schedulerConfig": {"partition": PARTITION, "mcsLabel": ""},
        "extraConfig": {"taint": "None"},
        "admission": {"managedNamespaces": [MANAGED_SPACE], "replicas": 1},
        "sharedConfig": {
            "slurmRestApi": f"http://{RELEASE}-restapi.{SPACE}:6820",
            "token": {"create": True, "jwtKeyRef": {"name": f"{RELEASE}-auth-jwt", "key": "jwt.key"}},
        },
        "completer": {
            "enabled": True,
            "image": image("completer"),
            "slurmctldHosts": [f"{RELEASE}-controller.{SPACE}"],
            "clusterName": RELEASE,
        },
    }


class LabCharts:
    """Our charts in a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def load_slinky(self, progress: Progress) -> None:
        """Put slinky's own image on every node."""
        self.lab.load_image(ArtifactInventory.of(self.lab.state.minor).slinky_image(progress))

    def install_operator(self) -> None:
        """Install the CRDs, the operator and its webhook; returns once they serve."""
        self.helm("install", "slurm-operator-crds", "slurm-operator-crds", OPERATOR_SPACE)
        self.helm("install", "slurm-operator", "slurm-operator", OPERATOR_SPACE, operator_values())

    def install_cluster(self, workers: int = 2) -> None:
        """Install a Slurm cluster; returns once its workers have registered."""
        self.helm("install", RELEASE, "slurm", SPACE, cluster_values(workers))
        self.wait_ready("controllers", "restapis", "nodesets")

    def install_bridge(self) -> None:
        """Install the bridge; returns once every node is a Slurm host."""
        self.helm("install", "slurm-bridge", "slurm-bridge", SPACE, bridge_values())
        nodes = [f"node{number}" for number in range(1, self.lab.state.nodes + 1)]
        self.lab.kubectl("annotate", "--overwrite", "node", *nodes, f"{BRIDGED}-partitions={PARTITION}")
        self.lab.kubectl("label", "--overwrite", "node", *nodes, f"{BRIDGED}=")
        until(lambda: set(nodes) <= self.idle_hosts(), "nodes to become Slurm hosts", 60, lambda: self.slurm("sinfo"))

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
        """Run a command in the pod of a Slurm host."""
        return self.lab.kubectl("exec", "-n", SPACE, f"{RELEASE}-worker-{host}", "-c", "slurmd", "--", *argv)

    def helm(self, verb: str, release: str, chart: str, space: str, values: dict[str, Any] | None = None) -> None:
        """Install or upgrade a chart and wait until its objects are ready."""
        arguments = (verb, release, str(CHECKOUT / "charts" / chart), "--create-namespace", "--values=-")
        self.run_helm(*arguments, space=space, given=yaml.safe_dump(values or {}))

    def uninstall(self, release: str, space: str, *arguments: str) -> None:
        """Remove a release and wait until its objects are gone."""
        self.run_helm("uninstall", release, *arguments, space=space)

    def run_helm(self, *arguments: str, space: str, given: str = "") -> str:
        """Run a helm command in a namespace and return its output."""
        home = self.lab.folder / "helm"
        settings = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
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
