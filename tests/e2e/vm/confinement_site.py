# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster whose only worker runs on a node with cgroup version 2 only, in a virtual machine.

slurmctld runs on a node in namespaces. The processor of the virtual machine is emulated where KVM does not boot, so
that a test should need one or two short jobs.
"""

from typing import Any

from tests.e2e.operator.site import OperatorSite, cluster, manifest
from tests.support.waiting import until

from slinky.lab.kubernetes.node import KIND_LABEL

EXTRA_CONF = """
GresTypes=gpu
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED
"""
#: Two devices that every machine has and every user may open.
GPUS = ("/dev/full", "/dev/random")
FILES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "extra"},
    "data": {"gres.conf": "AutoDetect=off\n" + "".join(f"Name=gpu File={gpu}\n" for gpu in GPUS)},
}
LIMIT_MIB, LOGFILE_MIB, SLURMD_MIB = 1024, 64, 128
OFFERED_MIB = LIMIT_MIB - SLURMD_MIB
WORKER = "gpu-0"
#: An emulated processor may answer late, which is no reason to restart slurmd.
PATIENCE = {"livenessProbe": {"timeoutSeconds": 30, "failureThreshold": 40}, "readinessProbe": {"timeoutSeconds": 30}}
ALICE, BOB = "2001", "2002"


def eat(mebibytes: int) -> str:
    """A script that needs so much memory: dd fills a buffer of the size of a block."""
    return f"dd if=/dev/zero of=/dev/null bs={mebibytes}M count=1"


class ConfinementSite:
    """A cluster with one worker in a virtual machine."""

    def __init__(self, site: OperatorSite) -> None:
        self.site = site

    def build(self) -> None:
        manifests = [item for item in cluster() if item["kind"] in ("Secret", "Controller", "RestApi")]
        for item in manifests:
            if item["kind"] == "Controller":
                item["spec"] |= {"extraConf": EXTRA_CONF, "template": on_nodes("namespaces")}
            if item["kind"] == "RestApi":
                item["spec"] |= {"template": on_nodes("namespaces")}
        self.site.apply(FILES, *manifests, worker())
        self.wait_worker()

    def wait_worker(self) -> None:
        """Wait until the worker is in service, and add the users to it: Slurm takes their names from there."""
        self.site.wait_workers(1)
        for name, user in (("alice", ALICE), ("bob", BOB)):
            self.site.exec(WORKER, "useradd", f"--uid={user}", name)

    def run_as(self, user: str, *argv: str, check: bool = True) -> str:
        """Run a command as a user in the worker."""
        identity = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "HOME=/tmp")
        return self.site.exec(WORKER, *identity, *argv, check=check)

    def run_job(self, user: str, script: str, *options: str) -> tuple[str, str]:
        """Run a batch job to its end; its state and its output."""
        job = self.submit(user, script, *options)
        until(lambda: self.site.job_state(job) not in ("PENDING", "RUNNING", "COMPLETING", ""), f"the end of job {job}")
        return self.site.job_state(job), self.site.exec(WORKER, "cat", f"/tmp/job-{job}")

    def submit(self, user: str, script: str, *options: str) -> str:
        argv = ("sbatch", "--parsable", "--chdir=/tmp", "-o", "/tmp/job-%j", "-c1", *options)
        return self.run_as(user, *argv, f"--wrap={script}").strip()

    def setting(self, key: str) -> str:
        """A setting of slurmctld, or of its cgroup.conf."""
        lines = (line.partition("=") for line in self.site.slurm("scontrol", "show", "config").splitlines())
        return next((value.strip() for name, _, value in lines if name.strip() == key), "")

    def identity(self) -> tuple[str, int]:
        """The worker's uid, and how often slurmd was restarted in it."""
        pod = self.site.pods()[WORKER]
        return pod["metadata"]["uid"], sum(item["restartCount"] for item in pod["status"]["containerStatuses"])


def on_nodes(kind: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"nodeSelector": {KIND_LABEL: kind}, "terminationGracePeriodSeconds": 5, **spec}}


def worker(**spec: Any) -> dict[str, Any]:
    slurmd = {"resources": {"limits": {"cpu": "2", "memory": f"{LIMIT_MIB}Mi"}}, **PATIENCE}
    return manifest(
        "NodeSet",
        "gpu",
        **{
            "controllerRef": {"name": "slurm"},
            "replicas": 1,
            "extraConf": "Gres=gpu:2",
            "slurmd": slurmd,
            "template": on_nodes("vm", hostname="g-"),
            **spec,
        },
    )
