# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster on the lab's nodes, and the operator that manages it."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from tests.support.waiting import until, until_quiescent

from slinky.api.names import metadata
from slinky.lab.errors import LabError
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

#: The lab's nodes have no cgroups that Slurm could manage.
EXTRA_FILES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "extra"},
    "data": {"cgroup.conf": "CgroupPlugin=disabled\n"},
}

#: Kinds whose finalizers keep a namespace, in the order in which they are freed.
FINALIZED = ("nodesets", "restapis", "loginsets", "tokens", "controllers", "accountings")
#: An annotation that means nothing to the operator, and that it does not copy to the objects it creates.
TOUCHED = "kubectl.kubernetes.io/touched"
MERGE_PATCH = "application/merge-patch+json"
NO_FINALIZERS = b'{"metadata":{"finalizers":null}}'
#: API groups of the kinds that tests read; all others are ours.
GROUPS = {
    **dict.fromkeys(("secret", "configmap", "pod", "resourcequota"), "api/v1"),
    "poddisruptionbudget": "apis/policy/v1",
}
OUR_GROUP = "apis/slinky.slurm.net/v1beta1"
#: Arguments of Slurm commands that show what a failed test needs.
SLURM_STATE = (("sinfo", "-N", "-o", "%N %t %E"), ("squeue", "-a"), ("scontrol", "show", "jobs"))


class OperatorProcess:
    """The operator of this checkout as a process beside the lab, with one namespace to work in."""

    def __init__(self, lab: Lab, namespace: str, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = {
            "kubeconfig": str(lab.kubeconfig),
            "namespaces": [namespace],
            "pod_addresses": True,
            "image": reference("{daemon}").replace("%7B", "{"),
            "cluster_domain": "cluster.local",
            "host": "127.0.0.1",
            "port": self.port,
        }
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: Any) -> None:
        """Start the process, with settings added to those of earlier starts; return once it is ready."""
        self.settings |= settings
        with self.log.open("ab") as out:
            argv = [*WITH_US, sys.executable, "-m", "slinky.operator", json.dumps(self.settings)]
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, env=dict(os.environ))
        until(lambda: self.get("/readyz"), "readiness of the operator")

    def stop(self) -> None:
        """End the process with SIGTERM; it must exit with 0."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(120) == 0, self.log.read_text()[-2000:]
            self.process = None

    def kill(self) -> None:
        """End the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
            self.process = None

    def get(self, path: str) -> str:
        """A page of the operator's HTTP server; empty while it does not answer with success."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def metrics(self, *names: str) -> dict[str, float]:
        """The samples whose names begin with one of these."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(names)]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def writes(self) -> dict[str, float]:
        """Counts of the operator's writes to Kubernetes and to Slurm."""
        return self.metrics("slinky_operator_writes_total", "slinky_operator_slurm_writes_total")

    def reconciles(self, controller: str) -> float:
        """How many reconciles of a controller have ended."""
        return sum(self.metrics(f'controller_runtime_reconcile_total{{controller="{controller}-controller"').values())

    def has_reconciled(self, controller: str, since: float) -> bool:
        """Whether a reconcile has ended since `reconciles` returned this count."""
        return self.reconciles(controller) > since

    def diagnose(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text().splitlines()[-60:])


class SlurmSite:
    """One namespace with one Slurm cluster."""

    controller_pod = "slurm-controller-0"

    def __init__(self, lab: Lab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace
        self.is_spent = False  # set by a test that leaves nothing for the next

    # Kubernetes ----------------------------------------------------------------------------------------------------

    def kubectl(self, *argv: str, input: str | None = None, check: bool = True) -> str:
        return self.lab.kubectl("-n", self.namespace, *argv, input=input, check=check)

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(manifests))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object; an error if it does not exist."""
        item: dict[str, Any] = self.lab.api.get(self._path(kind, name))
        return item

    def exists(self, kind: str, name: str) -> bool:
        try:
            self.get(kind, name)
        except LabError as error:
            if ": 404:" in str(error):
                return False
            raise
        return True

    def status(self, kind: str, name: str) -> dict[str, Any]:
        return dict(self.get(kind, name).get("status") or {})

    def condition(self, kind: str, name: str, condition: str) -> dict[str, Any]:
        """A condition of an object; empty if the object does not have it."""
        conditions = self.status(kind, name).get("conditions", [])
        return next((entry for entry in conditions if entry["type"] == condition), {})

    def patch(self, kind: str, name: str, **spec: Any) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def pods(self, role: str = "slurmd", **labels: str) -> dict[str, dict[str, Any]]:
        """The pods of a daemon by name."""
        selector = ",".join(f"{key}={value}" for key, value in {metadata.APP_NAME: role, **labels}.items())
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={quote(selector)}"
        return {pod["metadata"]["name"]: pod for pod in self.lab.api.get(path)["items"]}

    def uids(self, role: str = "slurmd") -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(role).items()}

    def is_protected(self, pod: str) -> bool:
        """Whether the disruption budget protects a worker from eviction."""
        labels = self.pods().get(pod, {}).get("metadata", {}).get("labels", {})
        return bool(labels.get(metadata.POD_PROTECT) == "true")

    # Slurm ---------------------------------------------------------------------------------------------------------

    def slurm(self, *argv: str, check: bool = True) -> str:
        """Run a Slurm command beside slurmctld."""
        return self.kubectl("exec", self.controller_pod, "-c", "slurmctld", "--", *argv, check=check)

    def exec(self, pod: str, *argv: str, check: bool = True) -> str:
        """Run a command in a worker."""
        return self.kubectl("exec", pod, "-c", "slurmd", "--", *argv, check=check)

    def worker_of(self, host: str) -> str:
        """The name of the pod that is a host of Slurm."""
        return f"gpu-{host.rpartition('-')[2]}"

    def host_states(self) -> dict[str, str]:
        """The hosts and their states; empty while slurmctld does not answer."""
        lines = self.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N %t", check=False).splitlines()
        return dict(line.split() for line in lines)

    def drain_reasons(self) -> dict[str, str]:
        lines = self.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N|%E").splitlines()
        return {host: reason for host, _, reason in (line.partition("|") for line in lines)}

    def start_job(self, host: str, *options: str, pod: str = "") -> str:
        """Start a job that runs until `finish_job`; `pod` is the worker that submits it."""
        # The file is removed because job ids are used again when slurmctld loses its state.
        script = "until rm /tmp/go-$SLURM_JOB_ID; do sleep 0.2; done"
        argv = ("sbatch", "--parsable", "-N1", "-w", host, "--chdir=/tmp", "-o", "/dev/null", *options)
        job = self.exec(pod or self.worker_of(host), *argv, f"--wrap={script}").strip()
        until(lambda: self.job_state(job) == "RUNNING", f"start of job {job} on {host}")
        return job

    def release_job(self, job: str, pod: str) -> None:
        """Let the job that runs on this worker exit."""
        self.exec(pod, "touch", f"/tmp/go-{job}")

    def finish_job(self, job: str, pod: str) -> None:
        """Let the job exit, and require that it completes in its first run."""
        self.release_job(job, pod)
        until(lambda: self.job_state(job) == "COMPLETED", f"completion of job {job}")
        assert "Restarts=0" in self.slurm("scontrol", "show", "job", job)

    def job_state(self, job: str) -> str:
        """The state of a job, also of one that has ended; empty while slurmctld does not answer."""
        words = self.slurm("scontrol", "show", "job", job, "-o", check=False).split()
        return next((word.partition("=")[2] for word in words if word.startswith("JobState=")), "")

    def has_workers(self, replicas: int, node_set: str = "gpu") -> bool:
        """Whether so many workers are ready, of the newest revision, and in service in Slurm."""
        status = self.status("nodeset", node_set)
        counts = {status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")}
        if counts != {replicas}:
            return False
        return sum(state in {"idle", "mix", "alloc"} for state in self.host_states().values()) == replicas

    def wait_workers(self, replicas: int, node_set: str = "gpu") -> None:
        until(lambda: self.has_workers(replicas, node_set), f"{replicas} workers of {node_set}")

    def diagnose(self) -> str:
        """The state of Slurm and the last lines of its controllers, for a failed test."""
        states = [
            self.kubectl("exec", name, "-c", "slurmctld", "--", *argv, check=False)
            for name in self.pods("slurmctld")
            for argv in SLURM_STATE
        ]
        logs = ("logs", "--tail=40", "--prefix", "--all-containers", "-l", f"{metadata.APP_NAME}=slurmctld")
        return "\n".join([*states, self.kubectl(*logs, check=False)])

    def _path(self, kind: str, name: str) -> str:
        return f"/{GROUPS.get(kind, OUR_GROUP)}/namespaces/{self.namespace}/{kind}s/{name}"


class OperatorSite(SlurmSite):
    """A site whose operator is a process of the test."""

    def __init__(self, lab: Lab, namespace: str, log: Path) -> None:
        super().__init__(lab, namespace)
        self.operator = OperatorProcess(lab, namespace, log)

    def reconcile_again(self, kind: str = "nodeset", name: str = "gpu") -> None:
        """Make the operator reconcile an object from the start to the end, and wait until it writes nothing more.

        The first reconcile that is counted may have begun before the object was touched; the second has not.
        """
        for _ in range(2):
            count = self.operator.reconciles(kind)
            self.kubectl("annotate", "--overwrite", kind, name, f"{TOUCHED}={secrets.token_hex(4)}")
            until(partial(self.operator.has_reconciled, kind, count), f"a reconcile of {kind} {name}")
        until_quiescent(self.operator.writes, "the operator's writes")

    def diagnose(self) -> str:
        return f"{super().diagnose()}\n{self.operator.diagnose()}"


@contextmanager
def operator_site(lab: Lab, folder: Path) -> Iterator[OperatorSite]:
    """A new namespace with the operator running; both are removed at the end, whatever state they are in."""
    crds = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, text=True, check=True)
    lab.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=crds.stdout)
    name = f"op-{secrets.token_hex(3)}"
    lab.kubectl("create", "namespace", name)
    site = OperatorSite(lab, name, folder / f"{name}.log")
    try:
        site.operator.start()
        yield site
        site.operator.stop()
    finally:
        site.operator.kill()
        remove_namespace(lab, name)
        restore_nodes(lab)


def remove_namespace(lab: Lab, name: str) -> None:
    """Delete a namespace whose operator has ended: without it, finalizers are removed by hand."""
    lab.kubectl("delete", "namespace", name, "--wait=false", check=False)
    for kind in FINALIZED:
        path = f"/{OUR_GROUP}/namespaces/{name}/{kind}"
        for item in lab.api.get(path)["items"]:
            with suppress(LabError):  # deleted meanwhile
                lab.api.call("PATCH", f"{path}/{item['metadata']['name']}", NO_FINALIZERS, MERGE_PATCH)


def restore_nodes(lab: Lab) -> None:
    """Undo what tests do to nodes."""
    keys = (metadata.TOPOLOGY, metadata.FEATURES, metadata.HOSTNAME_OVERRIDE, metadata.NODE_CORDON_REASON)
    with suppress(LabError):
        lab.kubectl("annotate", "node", "--all", *(f"{key}-" for key in keys))
        lab.kubectl("uncordon", "-l", "kubernetes.io/os=linux")


def secret(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """An object of one of our kinds."""
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster(**controller: Any) -> list[dict[str, Any]]:
    """The manifests of a small cluster."""
    return [
        secret("slurm-key", **{"slurm.key": secrets.token_hex(64)}),
        secret("jwt-key", **{"jwt.key": secrets.token_hex(32)}),
        EXTRA_FILES,
        manifest(
            "Controller",
            "slurm",
            slurmKeyRef={"name": "slurm-key", "key": "slurm.key"},
            jwtKeyRef={"name": "jwt-key", "key": "jwt.key"},
            configFileRefs=[{"name": "extra"}],
            persistence={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            extraConf=EXTRA_CONF,
            **controller,
        ),
        manifest("RestApi", "slurm", controllerRef={"name": "slurm"}),
        node_set(2),
    ]


def node_set(replicas: int, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"terminationGracePeriodSeconds": 5, "hostname": "g-"}}
    return manifest("NodeSet", "gpu", controllerRef={"name": "slurm"}, replicas=replicas, template=template, **spec)
