# SPDX-License-Identifier: Apache-2.0
"""The workloads of the demo and their outcome.

Pods occupy five of the six cores first, and an `sbatch` job gets the sixth, beside a pod. An `sbatch` job that needs
three whole nodes waits for the pods, and a gang of pods waits for that job. The table is read back from Slurm and
Kubernetes; the cores of each job are read while it runs, and no core may have two jobs.
"""

import json
import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from slinky.lab.demo.charts import MANAGED_SPACE as SPACE
from slinky.lab.demo.charts import LabCharts
from slinky.lab.errors import LabError
from slinky.lab.machine.machine import until
from slinky.lab.prepare.images import reference
from slinky.slurm.hostlist import expand, fold

Manifest = dict[str, Any]
Pod = dict[str, Any]
Row = dict[str, str]

WORK, JOB_LABEL, CONDITION = "demo", "scheduler.slinky.slurm.net/slurm-jobid", "SlurmScheduled"
SHARED = {"slurmjob.slinky.slurm.net/exclusive": "false"}
#: Small workloads occupy their nodes until a file appears, so that the gang has to wait.
HOLD, END = "until [ -e /end ]; do sleep 0.2; done", ("touch", "/end")
#: Reasons of a pod before Slurm has evaluated its job.
BEFORE = ("Pending", "GangIncomplete", "None")
PATIENCE = 180
#: Workloads that are submitted to Kubernetes, by the value of their label.
WORKLOADS = {
    "gpu": "Job gpu",
    "pair": "PodGroup pair",
    "sweep": "JobSet sweep",
    "serving": "LeaderWorkerSet serving",
}
COLUMNS = ("WORKLOAD", "JOB", "STATE", "WAITED FOR", "CORES", "SUBMITTED", "STARTED", "ENDED", "OUTPUT")
#: The output of an `sbatch` job, in the worker of its first host.
OUTPUT = "/tmp/demo-{job}.out"  # noqa: S108 - in a pod of its own


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
        self._cores: dict[str, dict[str, str]] = {}  # by job, and by hosts
        self._batch: dict[str, str] = {}  # titles of `sbatch` jobs

    def fill(self) -> None:
        """Submit pods that occupy all cores but one."""
        self.site.lab.kubectl("create", "namespace", SPACE)
        self._create(*small_work())
        self._wait(lambda pods: len(pods) == 5 and all(map(started, pods)), "the small work to start")

    def share(self) -> None:
        """Run an `sbatch` job on the core that the pods have left."""
        job = self._submit("sbatch beside pods", "echo hello from $(hostname); sleep 3", "--ntasks=1")
        self._wait(lambda _: self._is_over(job), "the sbatch job to end")

    def crowd(self) -> None:
        """Submit an `sbatch` job that needs all nodes, which pods occupy, and then a gang of pods."""
        nodes = str(self.site.lab.state.nodes)
        script = "srun hostname | sort | paste -sd ' '; sleep 3"
        job = self._submit("sbatch on whole nodes", script, f"--nodes={nodes}", "--exclusive")
        self._wait(lambda _: bool(self._reasons.get(job)), "the sbatch job to wait for the pods")
        self._create(gang(self.site.lab.state.nodes))
        self._wait(
            lambda pods: any(self._reasons.get(job_of(pod)) for pod in pods_of("serving", pods)),
            "the gang to wait for the sbatch job",
        )

    def clear(self) -> None:
        """End the small workloads; wait until the `sbatch` job has run and the gang has started."""
        for pod in self._pods():
            if running(pod):
                self.site.lab.kubectl("exec", "-n", SPACE, pod["metadata"]["name"], "--", *END)
        self._wait(
            lambda pods: all(map(started, pods)) and all(running(pod) for pod in pods_of("serving", pods)),
            "the gang to start",
        )

    def free(self) -> None:
        """Delete the gang, so that the nodes are free for other work."""
        self.site.lab.kubectl("delete", "leaderworkersets", "--all", "-n", SPACE)
        until(lambda: set(self.site.nodes) <= self.site.idle_hosts(), "free nodes", PATIENCE, lambda: why(self._pods()))

    def rows(self) -> list[Row]:
        """The outcome of every job."""
        pods = self._pods()
        jobs = self._jobs()
        by_job: dict[str, list[Pod]] = {}
        for pod in pods:
            by_job.setdefault(job_of(pod), []).append(pod)
        rows = [self._row(WORKLOADS[members[0]["metadata"]["labels"][WORK]], jobs[job], self._output(members))
                for job, members in by_job.items()]  # fmt: skip
        rows += [self._row(title, jobs[job], self._batch_output(jobs[job])) for job, title in self._batch.items()]
        return sorted(rows, key=lambda row: int(row["JOB"]))

    def _row(self, work: str, job: dict[str, str], output: str) -> Row:
        waited = f"{', '.join(self._reasons.get(job['JobId'], []))} ({seconds_waited(job)} s)"
        cells = (
            work,
            job["JobId"],
            job["JobState"],
            waited if job["JobId"] in self._reasons else "-",
            " ".join(f"{fold(expand(hosts))}:{ids}" for hosts, ids in self._cores.get(job["JobId"], {}).items()),
            *(_clock(job[name]) for name in ("SubmitTime", "StartTime")),
            "-" if job["JobState"] == "RUNNING" else _clock(job["EndTime"]),
            output,
        )
        return dict(zip(COLUMNS, cells, strict=True))

    def _output(self, pods: Iterable[Pod]) -> str:
        logs = [self.site.lab.kubectl("logs", "-n", SPACE, pod["metadata"]["name"]).strip() for pod in pods]
        return "; ".join(sorted(filter(None, logs)))

    def _submit(self, title: str, script: str, *options: str) -> str:
        """Submit a native job; returns its id."""
        arguments = ("--parsable", "--time=5", "--chdir=/tmp", f"--output={OUTPUT.format(job='%j')}", *options)
        job = self.site.slurm("sbatch", *arguments, "--wrap", script).strip()
        self._batch[job] = title
        return job

    def _batch_output(self, job: dict[str, str]) -> str:
        return self.site.on_worker(job["BatchHost"], "cat", OUTPUT.format(job=job["JobId"])).strip()

    def _is_over(self, job: str) -> bool:
        return self._jobs()[job]["JobState"] not in ("PENDING", "RUNNING", "COMPLETING")

    def _create(self, *manifests: Manifest) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.site.lab.kubectl("create", "-f", "-", input=json.dumps(items))

    def _pods(self) -> list[Pod]:
        pods: list[Pod] = self.site.lab.api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
        return pods

    def _jobs(self) -> dict[str, dict[str, str]]:
        """Every job that slurmctld knows, as scontrol shows it."""
        output = self.site.slurm("scontrol", "-o", "-d", "show", "job")
        lines = [line for line in output.splitlines() if line.startswith("JobId=")]
        jobs = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        cores = {job["JobId"]: cores_of(line) for job, line in zip(jobs, lines, strict=True) if job_runs(job)}
        check_cores(cores)
        self._cores |= cores
        return {job["JobId"]: job for job in jobs}

    def _wait(self, done: Callable[[list[Pod]], bool], what: str) -> None:
        def check() -> bool:
            pods, jobs = self._pods(), self._jobs()
            self._record_reasons(pods, jobs)
            if done(pods):
                return True
            time.sleep(0.2)
            return False

        until(check, what, PATIENCE, lambda: why(self._pods()))

    def _record_reasons(self, pods: Iterable[Pod], jobs: dict[str, dict[str, str]]) -> None:
        """Record the pending reasons: those that pods show, and those of native jobs in Slurm."""
        shown = [(job_of(pod), condition(pod)["reason"]) for pod in pods if condition(pod).get("status") == "False"]
        native = [(job, jobs[job]["Reason"]) for job in self._batch if jobs[job]["JobState"] == "PENDING"]
        for job, reason in (*shown, *native):
            if job and reason not in BEFORE and reason not in self._reasons.setdefault(job, []):
                self._reasons[job].append(reason)


def job_runs(job: dict[str, str]) -> bool:
    """Whether a job runs."""
    return job["JobState"] == "RUNNING"


def cores_of(line: str) -> dict[str, str]:
    """The cores of a job by its hosts, from a line of `scontrol -o -d show job`."""
    return dict(re.findall(r"\bNodes=(\S+) CPU_IDs=(\S+)", line))


def check_cores(jobs: dict[str, dict[str, str]]) -> None:
    """Raise an error if a core of a host has two jobs."""
    owners: dict[tuple[str, str], str] = {}
    for job, cores in jobs.items():
        pairs = ((host, core) for hosts, ids in cores.items() for host in expand(hosts) for core in expand(f"c[{ids}]"))
        for pair in pairs:
            if (other := owners.setdefault(pair, job)) != job:
                raise LabError(f"jobs {other} and {job} both have core {pair[1][1:]} of {pair[0]}")


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
