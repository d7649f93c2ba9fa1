# SPDX-License-Identifier: Apache-2.0
"""The workloads of the demo and their outcome.

Small workloads occupy the nodes first. A gang that needs three whole nodes is submitted next, waits, and starts when
the nodes are free; an `sbatch` job runs beside it. The table is read back from Slurm and Kubernetes.
"""

import json
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from slinky.lab.demo.charts import MANAGED_SPACE as SPACE
from slinky.lab.demo.charts import LabCharts
from slinky.lab.machine.machine import until
from slinky.lab.prepare.images import reference

Manifest = dict[str, Any]
Pod = dict[str, Any]
Row = dict[str, str]

WORK, JOB_LABEL, CONDITION = "demo", "scheduler.slinky.slurm.net/slurm-jobid", "SlurmScheduled"
SHARED = {"slurmjob.slinky.slurm.net/exclusive": "false"}
#: Small workloads occupy their nodes until a file appears, so that the gang has to wait.
HOLD, END = "until [ -e /end ]; do sleep 0.2; done", ("touch", "/end")
#: Reasons of a pod before Slurm has evaluated its job.
BEFORE = ("Pending", "GangIncomplete")
PATIENCE = 180
#: Workloads that are submitted to Kubernetes, by the value of their label.
WORKLOADS = {
    "gpu": "Job gpu",
    "pair": "PodGroup pair",
    "sweep": "JobSet sweep",
    "serving": "LeaderWorkerSet serving",
}
COLUMNS = ("WORKLOAD", "JOB", "STATE", "WAITED FOR", "NODES", "SUBMITTED", "STARTED", "ENDED", "OUTPUT")


def template(work: str, command: str, group: str = "", limits: dict[str, str] | None = None) -> Manifest:
    """A pod template; admission sets the scheduler name of the bridge."""
    container = {
        "name": "main",
        "image": reference("busybox"),
        "command": ["sh", "-c", command],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": limits or {}},
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    labels = {WORK: work, **({"scheduling.x-k8s.io/pod-group": group} if group else {})}
    return {"metadata": {"labels": labels}, "spec": spec}


def manifest(api: str, kind: str, name: str, spec: Manifest, annotations: dict[str, str] | None = None) -> Manifest:
    """An object in the namespace of the demo."""
    meta = {"name": name, "namespace": SPACE, "annotations": annotations or {}}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def small_work() -> list[Manifest]:
    """A Job with a GPU, a PodGroup of two, a JobSet of two."""
    gpu = template("gpu", f"echo $GPU_DEVICES; {HOLD}", limits={"example.com/gpu": "1"})
    pair = template("pair", HOLD, group="pair")
    sweep = {"spec": {"template": template("sweep", HOLD)}}
    return [
        manifest("batch/v1", "Job", "gpu", {"template": gpu}, SHARED),
        manifest("scheduling.x-k8s.io/v1alpha1", "PodGroup", "pair", {"minMember": 2}, SHARED),
        manifest("batch/v1", "Job", "pair", {"parallelism": 2, "completions": 2, "template": pair}),
        manifest(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "sweep",
            {"replicatedJobs": [{"name": "part", "replicas": 2, "template": sweep}]},
            SHARED,
        ),
    ]


def gang(size: int) -> Manifest:
    """A LeaderWorkerSet that uses whole nodes and runs until it is deleted."""
    pod = template("serving", 'echo "worker $LWS_WORKER_INDEX of $LWS_GROUP_SIZE"; sleep 100000')
    pod["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": pod}}
    return manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serving", spec)


class DemoRun:
    """One run of the demo."""

    def __init__(self, site: LabCharts) -> None:
        self.site = site
        self._reasons: dict[str, list[str]] = {}
        self._batch: tuple[str, str] = ("", "")

    def fill(self) -> None:
        """Submit small workloads that occupy every node."""
        self.site.lab.kubectl("create", "namespace", SPACE)
        self._create(*small_work())
        self._wait(lambda pods: len(pods) == 5 and all(map(started, pods)), "the small work to start")

    def crowd(self) -> None:
        """Submit a gang that needs all nodes, none of which is free."""
        self._create(gang(self.site.lab.state.nodes))
        self._wait(
            lambda pods: any(condition(pod).get("reason") == "Resources" for pod in pods_of("serving", pods)),
            "the gang to wait for resources",
        )

    def batch(self) -> None:
        """Run an `sbatch` job on a worker pod."""
        script = 'sbatch --wait --parsable --chdir=/tmp --output=demo.out --wrap="echo hello from job \\$SLURM_JOB_ID"'
        job = self.site.slurm("sh", "-c", script).strip()
        host = self._jobs()[job]["NodeList"]
        output = self.site.on_worker(host, "cat", "/tmp/demo.out").strip()  # noqa: S108 - in a pod of its own
        self._batch = (job, output)

    def clear(self) -> None:
        """End the small workloads and wait until the whole gang has started."""
        for pod in self._pods():
            if running(pod):
                self.site.lab.kubectl("exec", "-n", SPACE, pod["metadata"]["name"], "--", *END)
        self._wait(
            lambda pods: all(map(started, pods)) and all(running(pod) for pod in pods_of("serving", pods)),
            "the gang to start",
        )

    def rows(self) -> list[Row]:
        """The outcome of every job."""
        pods = self._pods()
        jobs = self._jobs()
        by_job: dict[str, list[Pod]] = {}
        for pod in pods:
            by_job.setdefault(job_of(pod), []).append(pod)
        rows = [self._row(WORKLOADS[members[0]["metadata"]["labels"][WORK]], jobs[job], self._output(members))
                for job, members in by_job.items()]  # fmt: skip
        batch, output = self._batch
        return sorted([*rows, self._row("sbatch", jobs[batch], output)], key=lambda row: int(row["JOB"]))

    def _row(self, work: str, job: dict[str, str], output: str) -> Row:
        waited = f"{', '.join(self._reasons.get(job['JobId'], []))} ({seconds_waited(job)} s)"
        cells = (
            work,
            job["JobId"],
            job["JobState"],
            waited if job["JobId"] in self._reasons else "-",
            job["NodeList"],
            *(_clock(job[name]) for name in ("SubmitTime", "StartTime")),
            "-" if job["JobState"] == "RUNNING" else _clock(job["EndTime"]),
            output,
        )
        return dict(zip(COLUMNS, cells, strict=True))

    def _output(self, pods: Iterable[Pod]) -> str:
        logs = [self.site.lab.kubectl("logs", "-n", SPACE, pod["metadata"]["name"]).strip() for pod in pods]
        return "; ".join(sorted(filter(None, logs)))

    def _create(self, *manifests: Manifest) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.site.lab.kubectl("create", "-f", "-", input=json.dumps(items))

    def _pods(self) -> list[Pod]:
        pods: list[Pod] = self.site.lab.api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
        return pods

    def _jobs(self) -> dict[str, dict[str, str]]:
        """Every job that slurmctld knows, as scontrol shows it."""
        lines = self.site.slurm("scontrol", "-o", "show", "job").splitlines()
        jobs = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        return {job["JobId"]: job for job in jobs}

    def _wait(self, done: Callable[[list[Pod]], bool], what: str) -> None:
        def check() -> bool:
            pods = self._pods()
            self._record_reasons(pods)
            if done(pods):
                return True
            time.sleep(0.2)
            return False

        until(check, what, PATIENCE, lambda: why(self._pods()))

    def _record_reasons(self, pods: Iterable[Pod]) -> None:
        """Record the pending reasons of each job while it is pending."""
        for pod in pods:
            pending = condition(pod)
            if job_of(pod) and pending.get("status") == "False" and pending["reason"] not in BEFORE:
                known = self._reasons.setdefault(job_of(pod), [])
                if pending["reason"] not in known:
                    known.append(pending["reason"])


def why(pods: Iterable[Pod]) -> str:
    """The bridge's condition of each pod, to explain a failed wait."""
    conditions = [(pod["metadata"]["name"], condition(pod)) for pod in pods]
    return "\n".join(f"{name}: {current.get('reason')}: {current.get('message')}" for name, current in conditions)


def pods_of(work: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods of a workload."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(WORK) == work]


def job_of(pod: Pod) -> str:
    """The Slurm job of a pod, if it has one."""
    return str(pod["metadata"]["labels"].get(JOB_LABEL, ""))


def condition(pod: Pod) -> dict[str, str]:
    """The bridge's condition of a pod."""
    matching = [entry for entry in pod["status"].get("conditions", ()) if entry["type"] == CONDITION]
    return matching[0] if matching else {}


def started(pod: Pod) -> bool:
    """Whether a pod runs or has run."""
    return pod["status"]["phase"] in ("Running", "Succeeded")


def running(pod: Pod) -> bool:
    """Whether a pod runs."""
    return bool(pod["status"]["phase"] == "Running")


def seconds_waited(job: dict[str, str]) -> int:
    """Seconds from submission to start."""
    submitted, begun = (datetime.fromisoformat(job[name]) for name in ("SubmitTime", "StartTime"))
    return int((begun - submitted).total_seconds())


def _clock(stamp: str) -> str:
    """The time of day of a timestamp, or - if there is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return "-"
    return f"{moment:%H:%M:%S}"
