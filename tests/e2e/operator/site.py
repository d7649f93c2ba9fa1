# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on the lab's nodes and the operator that keeps it, as tests use them."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from slinky.lab.kubernetes.bare_plane import WITH_US
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference

EXTRA_CONF = """
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED
"""

#: The lab's nodes have no cgroups to give to Slurm.
EXTRA = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "extra"},
    "data": {"cgroup.conf": "CgroupPlugin=disabled\n"},
}


#: How much longer than usual everything may take: no test is about time, and machines are busy.
PATIENCE = 4


def until(check: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """What `check` returns, once that is something."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not come true in {seconds * PATIENCE} s"
        time.sleep(0.5)


class Operator:
    """The operator as a process of this checkout."""

    def __init__(self, lab: Lab, namespace: str, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = {
            "kubeconfig": str(lab.kubeconfig),
            "namespaces": [namespace],
            "pod_addresses": True,
            "images": [reference("{daemon}").replace("%7B", "{")],
            "cluster_domain": "cluster.local",
            "host": "127.0.0.1",
            "port": self.port,
        }
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            argv = [*WITH_US, sys.executable, "-m", "slinky.operator", json.dumps(self.settings)]
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, env=dict(os.environ))
        until(lambda: self.get("/readyz"), "the operator's readiness")

    def tell(self) -> str:
        """Its last words."""
        return "\n".join(self.log.read_text().splitlines()[-60:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(20) == 0, self.log.read_text()[-2000:]
            self.process = None

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def writes(self) -> dict[str, float]:
        """How often it has written what, in Kubernetes and in Slurm."""
        names = ("slinky_operator_writes_total", "slinky_operator_slurm_writes_total")
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(names)]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


class Site:
    """One namespace with one Slurm cluster."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace

    def kubectl(self, *argv: str, input: str | None = None, check: bool = True) -> str:
        return self.lab.kubectl("-n", self.namespace, *argv, input=input, check=check)

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def tell(self) -> str:
        """How Slurm sees it, and what its controllers have said last; for a test that failed."""
        parts = [("sinfo", "-N", "-o", "%N %t %E"), ("squeue", "-a"), ("scontrol", "show", "jobs")]
        said = [
            self.kubectl("exec", name, "-c", "slurmctld", "--", *argv, check=False)
            for name in self.pods("slurmctld")
            for argv in parts
        ]
        logs = ("logs", "--tail=40", "--prefix", "--all-containers", "-l", "app.kubernetes.io/name=slurmctld")
        return "\n".join([*said, self.kubectl(*logs, check=False)])

    def pods(self, role: str = "slurmd") -> dict[str, dict[str, Any]]:
        text = self.kubectl("get", "pods", "-l", f"app.kubernetes.io/name={role}", "-o", "json")
        return {pod["metadata"]["name"]: pod for pod in json.loads(text)["items"]}

    def slurm(self, *argv: str, check: bool = True) -> str:
        """Run a command of Slurm beside slurmctld."""
        return self.kubectl("exec", "slurm-controller-0", "-c", "slurmctld", "--", *argv, check=check)

    def on(self, pod: str, *argv: str, check: bool = True) -> str:
        return self.kubectl("exec", pod, "-c", "slurmd", "--", *argv, check=check)

    def states(self) -> dict[str, str]:
        """Hosts and their states; empty while Slurm does not answer."""
        lines = self.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N %t", check=False).splitlines()
        return dict(line.split() for line in lines)

    def reasons(self) -> dict[str, str]:
        lines = self.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N|%E").splitlines()
        return {host: reason for host, _, reason in (line.partition("|") for line in lines)}

    def job(self, host: str, *options: str, pod: str = "") -> str:
        """A job that keeps a host busy until `release`; `pod` is the worker that submits it."""
        script = "until rm /tmp/go-$SLURM_JOB_ID; do sleep 0.2; done"  # ids come again when slurmctld loses its state
        argv = ("sbatch", "--parsable", "-N1", "-w", host, "--chdir=/tmp", "-o", "/dev/null", *options)
        job = self.on(pod or f"gpu-{host.rpartition('-')[2]}", *argv, f"--wrap={script}").strip()
        until(lambda: self.job_state(job) == "RUNNING", f"job {job} on {host}")
        return job

    def release(self, job: str, pod: str) -> None:
        """Let a job that runs on this worker come to its own end."""
        self.on(pod, "touch", f"/tmp/go-{job}")

    def job_state(self, job: str) -> str:
        """The state of a job, also of one that has ended; empty while slurmctld does not answer."""
        words = self.slurm("scontrol", "show", "job", job, "-o", check=False).split()
        return next((word.partition("=")[2] for word in words if word.startswith("JobState=")), "")

    def completed(self, job: str) -> None:
        """The job has come to its own end, in its first run."""
        until(lambda: self.job_state(job) == "COMPLETED", f"the end of job {job}")
        assert "Restarts=0" in self.slurm("scontrol", "show", "job", job)

    def settled(self, replicas: int, name: str = "gpu") -> bool:
        status = self.get("nodeset", name).get("status", {})
        counts = {status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")}
        idle = [host for host, state in self.states().items() if state in {"idle", "mix", "alloc"}]
        return counts == {replicas} and len(idle) == replicas


def secret(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def kind(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster(**controller: Any) -> list[dict[str, Any]]:
    """The manifests of a small cluster."""
    return [
        secret("slurm-key", **{"slurm.key": secrets.token_hex(64)}),
        secret("jwt-key", **{"jwt.key": secrets.token_hex(32)}),
        EXTRA,
        kind(
            "Controller",
            "slurm",
            slurmKeyRef={"name": "slurm-key", "key": "slurm.key"},
            jwtKeyRef={"name": "jwt-key", "key": "jwt.key"},
            configFileRefs=[{"name": "extra"}],
            persistence={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            extraConf=EXTRA_CONF,
            **controller,
        ),
        kind("RestApi", "slurm", controllerRef={"name": "slurm"}),
        node_set(2),
    ]


def node_set(replicas: int, **spec: Any) -> dict[str, Any]:
    quick = {"terminationGracePeriodSeconds": 5, "hostname": "g-"}
    return kind("NodeSet", "gpu", controllerRef={"name": "slurm"}, replicas=replicas, template={"spec": quick}, **spec)
