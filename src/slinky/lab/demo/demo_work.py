# SPDX-License-Identifier: Apache-2.0
"""The work of the demo: what is put into a site, and what became of it.

Small work takes the nodes first; a gang of three whole nodes comes later, waits for room, and starts when there is
some; a batch job of Slurm's own runs beside it. All of it is real, so all of it is read back and nothing assumed.
"""

import json
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from slinky.lab.demo.chart_site import MANAGED_SPACE as SPACE
from slinky.lab.demo.chart_site import Site
from slinky.lab.machine.machine import until
from slinky.lab.prepare.images import reference

Manifest = dict[str, Any]
Pod = dict[str, Any]
Row = dict[str, str]

WORK, JOB_LABEL, CONDITION = "demo", "scheduler.slinky.slurm.net/slurm-jobid", "SlurmScheduled"
SHARED = {"slurmjob.slinky.slurm.net/exclusive": "false"}
#: Small work holds its nodes until it is told to end, so that the gang surely waits.
HOLD, END = "until [ -e /end ]; do sleep 0.2; done", ("touch", "/end")
#: What a pod says before Slurm has looked at its job.
BEFORE = ("Pending", "GangIncomplete")
PATIENCE = 180
#: What is submitted to Kubernetes, by the name in its label.
WORKLOADS = {
    "gpu": "Job gpu",
    "pair": "PodGroup pair",
    "sweep": "JobSet sweep",
    "serving": "LeaderWorkerSet serving",
}
COLUMNS = ("WORKLOAD", "JOB", "STATE", "WAITED FOR", "NODES", "SUBMITTED", "STARTED", "ENDED", "SAID")


def template(work: str, command: str, group: str = "", limits: dict[str, str] | None = None) -> Manifest:
    """A pod that says something and stays a while; admission makes it Slurm's."""
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
    """A LeaderWorkerSet that owns whole nodes and goes on until it is deleted."""
    pod = template("serving", 'echo "worker $LWS_WORKER_INDEX of $LWS_GROUP_SIZE"; sleep 100000')
    pod["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": size, "workerTemplate": pod}}
    return manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serving", spec)


class Show:
    """One performance."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._reasons: dict[str, list[str]] = {}
        self._batch: tuple[str, str] = ("", "")

    def fill(self) -> None:
        """Small work takes every node."""
        self.site.lab.kubectl("create", "namespace", SPACE)
        self._create(*small_work())
        self._wait(lambda pods: len(pods) == 5 and all(map(started, pods)), "the small work to start")

    def crowd(self) -> None:
        """Three whole nodes are asked for, of which none is free."""
        self._create(gang(self.site.lab.facts.nodes))
        self._wait(
            lambda pods: any(condition(pod).get("reason") == "Resources" for pod in of("serving", pods)),
            "the gang to wait for resources",
        )

    def batch(self) -> None:
        """A job of Slurm's own, on a worker that is a pod."""
        script = 'sbatch --wait --parsable --chdir=/tmp --output=demo.out --wrap="echo hello from job \\$SLURM_JOB_ID"'
        job = self.site.slurm("sh", "-c", script).strip()
        host = self._jobs()[job]["NodeList"]
        said = self.site.on_worker(host, "cat", "/tmp/demo.out").strip()  # noqa: S108 - in a pod of its own
        self._batch = (job, said)

    def clear(self) -> None:
        """The small work ends, and the gang starts whole."""
        for pod in self._pods():
            if running(pod):
                self.site.lab.kubectl("exec", "-n", SPACE, pod["metadata"]["name"], "--", *END)
        self._wait(
            lambda pods: all(map(started, pods)) and all(running(pod) for pod in of("serving", pods)),
            "the gang to start",
        )

    def rows(self) -> list[Row]:
        """What became of everything, job by job."""
        pods = self._pods()
        jobs = self._jobs()
        by_job: dict[str, list[Pod]] = {}
        for pod in pods:
            by_job.setdefault(job_of(pod), []).append(pod)
        rows = [self._row(WORKLOADS[members[0]["metadata"]["labels"][WORK]], jobs[job], self._said(members))
                for job, members in by_job.items()]  # fmt: skip
        batch, said = self._batch
        return sorted([*rows, self._row("sbatch", jobs[batch], said)], key=lambda row: int(row["JOB"]))

    def _row(self, work: str, job: dict[str, str], said: str) -> Row:
        waited = f"{', '.join(self._reasons.get(job['JobId'], []))} ({seconds_waited(job)} s)"
        cells = (
            work,
            job["JobId"],
            job["JobState"],
            waited if job["JobId"] in self._reasons else "-",
            job["NodeList"],
            *(_clock(job[name]) for name in ("SubmitTime", "StartTime")),
            "-" if job["JobState"] == "RUNNING" else _clock(job["EndTime"]),
            said,
        )
        return dict(zip(COLUMNS, cells, strict=True))

    def _said(self, pods: Iterable[Pod]) -> str:
        logs = [self.site.lab.kubectl("logs", "-n", SPACE, pod["metadata"]["name"]).strip() for pod in pods]
        return "; ".join(sorted(filter(None, logs)))

    def _create(self, *manifests: Manifest) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.site.lab.kubectl("create", "-f", "-", input=json.dumps(items))

    def _pods(self) -> list[Pod]:
        found: list[Pod] = self.site.lab.api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
        return found

    def _jobs(self) -> dict[str, dict[str, str]]:
        """Every job that slurmctld remembers, as scontrol shows it."""
        lines = self.site.slurm("scontrol", "-o", "show", "job").splitlines()
        found = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        return {job["JobId"]: job for job in found}

    def _wait(self, done: Callable[[list[Pod]], bool], what: str) -> None:
        def look() -> bool:
            pods = self._pods()
            self._note(pods)
            if done(pods):
                return True
            time.sleep(0.2)
            return False

        until(look, what, PATIENCE, lambda: why(self._pods()))

    def _note(self, pods: Iterable[Pod]) -> None:
        """Remember why each job waits, for later it does not any more."""
        for pod in pods:
            told = condition(pod)
            if job_of(pod) and told.get("status") == "False" and told["reason"] not in BEFORE:
                known = self._reasons.setdefault(job_of(pod), [])
                if told["reason"] not in known:
                    known.append(told["reason"])


def why(pods: Iterable[Pod]) -> str:
    """What the bridge says on each pod, for a wait that was in vain."""
    told = [(pod["metadata"]["name"], condition(pod)) for pod in pods]
    return "\n".join(f"{name}: {said.get('reason')}: {said.get('message')}" for name, said in told)


def of(work: str, pods: Iterable[Pod]) -> list[Pod]:
    """The pods of a workload."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(WORK) == work]


def job_of(pod: Pod) -> str:
    """The Slurm job of a pod, if it has one."""
    return str(pod["metadata"]["labels"].get(JOB_LABEL, ""))


def condition(pod: Pod) -> dict[str, str]:
    """What the bridge says on a pod."""
    told = [found for found in pod["status"].get("conditions", ()) if found["type"] == CONDITION]
    return told[0] if told else {}


def started(pod: Pod) -> bool:
    """Whether a pod runs, or did."""
    return pod["status"]["phase"] in ("Running", "Succeeded")


def running(pod: Pod) -> bool:
    """Whether a pod runs."""
    return bool(pod["status"]["phase"] == "Running")


def seconds_waited(job: dict[str, str]) -> int:
    """From submission to start."""
    submitted, begun = (datetime.fromisoformat(job[name]) for name in ("SubmitTime", "StartTime"))
    return int((begun - submitted).total_seconds())


def _clock(stamp: str) -> str:
    """The time of day, of a moment that has come."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return "-"
    return f"{moment:%H:%M:%S}"
