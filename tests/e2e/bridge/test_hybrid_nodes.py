# SPDX-License-Identifier: Apache-2.0
"""Nodes with a kubelet and a slurmd, installed by all charts together: pods and native jobs share one host per node."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
from tests.e2e.bridge.bridge_site import condition_text, running, template
from tests.e2e.bridge.shape_run import JobRecord, ShapeRun
from tests.e2e.bridge.workload_shapes import ShapeBuilder
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.kube import NODES, Key, KubeClient, connect
from slinky.kube.conditions import find_condition
from slinky.lab import bringup
from slinky.lab.bringup import LabOptions
from slinky.lab.demo.charts import MANAGED_SPACE, SPACE, LabCharts
from slinky.lab.demo.workloads import check_cores, cores_of, job_runs
from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress

SHARED = {names.OPTION + "exclusive": "false"}
SMALL = {"resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT")


class HybridSite:
    """The charts of the demo in the lab of the tests."""

    def __init__(self, lab: Lab, kube: KubeClient) -> None:
        self.lab, self.kube, self.charts = lab, kube, LabCharts(lab)
        self.violations: list[str] = []  # what must never be observed; a wait would overlook it

    # --- pods

    def create_pod(self, name: str, command: str, node: str = "", *, grace: int = 1, shared: bool = True) -> None:
        """A pod of one CPU in Slurm, or of a whole node."""
        # Admission sets the scheduler of the bridge.
        selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        spec = template("default-scheduler", command, container=SMALL, **selector)
        spec["terminationGracePeriodSeconds"] = grace
        metadata = {"name": name, "annotations": SHARED if shared else {}}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.lab.kubectl("create", "-n", MANAGED_SPACE, "-f", "-", input=json.dumps(document))

    async def wait_running(self, name: str) -> WorkloadPod:
        async def current() -> WorkloadPod:
            pod = await self.kube.get(OUR_PODS, Key(MANAGED_SPACE, name))
            assert running(pod), (pod.status.phase, condition_text(pod))
            return pod

        return await eventually(current, f"pod {name} to run")

    async def wait_pending(self, name: str) -> None:
        """Wait until the job of a pod waits for resources."""

        async def waits() -> bool:
            pod = await self.kube.get(OUR_PODS, Key(MANAGED_SPACE, name))
            assert condition_text(pod).startswith("Resources: "), condition_text(pod)
            return not pod.spec.node_name

        await eventually(waits, f"pod {name} to wait")

    def runs_containers(self, name: str) -> bool:
        """Whether the kubelet still reports a running container of a pod."""
        path = "jsonpath={.status.containerStatuses[*].state.running}"
        return bool(self.lab.kubectl("get", "pod", name, "-n", MANAGED_SPACE, "-o", path, "--ignore-not-found").strip())

    # --- native jobs

    async def slurm(self, *argv: str) -> str:
        return await asyncio.to_thread(self.charts.slurm, *argv)

    async def submit(self, script: str, *options: str) -> str:
        """Submit a native job; returns its id."""
        return (
            await self.slurm("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, f"--wrap={script}")
        ).strip()

    async def jobs(self) -> dict[str, dict[str, str]]:
        """Every job that slurmctld knows; a core with two of them is a violation."""
        output = await self.slurm("scontrol", "-o", "-d", "show", "job")
        lines = [line for line in output.splitlines() if line.startswith("JobId=")]
        jobs = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        try:
            check_cores({job["JobId"]: cores_of(line) for job, line in zip(jobs, lines, strict=True) if job_runs(job)})
        except LabError as error:
            self.violations.append(str(error))
        return {job["JobId"]: job for job in jobs}

    async def wait_state(self, job: str, *states: str) -> dict[str, str]:
        async def current() -> dict[str, str]:
            record = (await self.jobs())[job]
            assert record["JobState"] in states, record
            return record

        return await eventually(current, f"job {job} to be {' or '.join(states)}")

    async def host_reason(self, host: str) -> str:
        return await self.slurm("sinfo", "-h", "-n", host, "-o", "%E")

    def diagnose(self) -> str:
        """The state of Slurm, for a failed test."""
        commands = (("sinfo", "-N", "-l"), ("squeue",), ("scontrol", "show", "nodes"))
        logs = self.lab.kubectl("logs", "-n", SPACE, "-l", "app.kubernetes.io/component=scheduler", "--tail=60")
        return "\n".join([*(self.charts.slurm(*command) for command in commands), logs])


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab of its own: the chart cannot install definitions that other tests have applied to the shared lab."""
    lab = bringup.up(LabOptions(name=f"hybrid-{secrets.token_hex(3)}", owner=os.getpid()), Progress())
    yield lab
    bringup.down(lab.name)


@pytest.fixture(scope="module")
async def kube(lab: Lab) -> AsyncIterator[KubeClient]:
    async with connect(lab.kubeconfig, manager="slurm-bridge") as client:
        yield client


@pytest.fixture(scope="module")
def charts(lab: Lab) -> LabCharts:
    """The operator, a cluster with one worker per node, and the bridge."""
    charts = LabCharts(lab)
    charts.load_slinky(Progress(quiet=True))
    lab.kubectl("create", "namespace", MANAGED_SPACE)
    charts.install_operator()
    charts.install_cluster()
    charts.install_bridge()
    return charts


@pytest.fixture
async def hybrid(lab: Lab, kube: KubeClient, charts: LabCharts) -> AsyncIterator[HybridSite]:
    """The charts; pods and jobs are gone afterwards."""
    site = HybridSite(lab, kube)
    yield site
    assert site.violations == []
    await site.slurm("scancel", "--user=slurm")  # of native jobs and of pods
    lab.kubectl("delete", "pods", "--all", "-n", MANAGED_SPACE)


async def test_every_node_is_one_host_with_a_slurmd(hybrid: HybridSite) -> None:
    lines = (await hybrid.slurm("scontrol", "-o", "show", "nodes")).splitlines()
    hosts = {line.split()[0].removeprefix("NodeName="): line for line in lines}
    assert sorted(hosts) == hybrid.charts.nodes
    assert not [line for line in lines if "EXTERNAL" in line]

    async def is_open(name: str) -> bool:
        conditions = (await hybrid.kube.get(NODES, Key("", name))).status.conditions
        condition = find_condition(conditions, names.HOST_CONDITION)
        return condition is not None and condition.reason == "Open"

    for name in hybrid.charts.nodes:
        await eventually(partial(is_open, name), f"the condition of {name}")


async def test_a_pod_and_a_native_job_share_a_node_and_wait_for_each_other(hybrid: HybridSite) -> None:
    native = await hybrid.submit("sleep 600", "--nodelist=node1", "--ntasks=1")
    await hybrid.wait_state(native, "RUNNING")
    hybrid.create_pod("beside", "sleep 600", "node1")
    beside = await hybrid.wait_running("beside")
    assert beside.spec.node_name == "node1"
    assert (await hybrid.jobs())[beside.metadata.labels[names.JOB_LABEL]]["NodeList"] == "node1"

    hybrid.create_pod("later", "sleep 600", "node1")  # both cores are in use
    await hybrid.wait_pending("later")
    whole = await hybrid.submit("sleep 600", "--nodelist=node1", "--exclusive")
    await hybrid.slurm("scancel", native)
    await hybrid.wait_running("later")
    assert (await hybrid.jobs())[whole]["JobState"] == "PENDING"
    hybrid.lab.kubectl("delete", "pod", "beside", "later", "-n", MANAGED_SPACE)
    await hybrid.wait_state(whole, "RUNNING")

    hybrid.create_pod("last", "sleep 600", "node1", shared=False)
    await hybrid.wait_pending("last")
    await hybrid.slurm("scancel", whole)
    assert (await hybrid.wait_running("last")).spec.node_name == "node1"


async def test_a_native_job_starts_only_when_the_containers_of_a_cancelled_job_have_stopped(hybrid: HybridSite) -> None:
    hybrid.create_pod("slow", "trap '' TERM; sleep 600 & wait; sleep 600", "node1", grace=10, shared=False)
    pod = await hybrid.wait_running("slow")
    await hybrid.slurm("scancel", pod.metadata.labels[names.JOB_LABEL])

    async def is_drained() -> bool:
        return "still stopping" in await hybrid.host_reason("node1")

    await eventually(is_drained, "the drain of node1")
    native = await hybrid.submit("sleep 600", "--nodelist=node1", "--ntasks=1")

    async def starts_after_the_pod() -> bool:
        runs = (await hybrid.jobs())[native]["JobState"] == "RUNNING"
        if runs and hybrid.runs_containers("slow"):
            hybrid.violations.append("the native job runs beside the pod")
        return runs

    await eventually(starts_after_the_pod, "the native job")
    assert "still stopping" not in await hybrid.host_reason("node1")


async def test_no_core_has_two_jobs_while_pods_and_native_jobs_come_and_go(hybrid: HybridSite) -> None:
    native = []
    for number in range(8):
        hybrid.create_pod(f"p{number}", "sleep 2")
        native.append(await hybrid.submit("sleep 2", "--ntasks=1"))

    async def all_ended() -> bool:
        jobs = await hybrid.jobs()  # checks the cores of all running jobs
        pods = await hybrid.kube.list(OUR_PODS, namespace=MANAGED_SPACE)
        states = {pod.metadata.name: (pod.status.phase, condition_text(pod)) for pod in pods}
        assert all(pod.status.phase == "Succeeded" for pod in pods), states
        return all(jobs[job]["JobState"] in ENDED for job in native)

    await eventually(all_ended, "the end of all pods and jobs")
    jobs = await hybrid.jobs()
    assert {jobs[job]["JobState"] for job in native} == {"COMPLETED"}


async def test_every_shape_runs_on_hybrid_nodes(hybrid: HybridSite) -> None:
    async def jobs() -> dict[str, JobRecord]:
        return {
            job_id: JobRecord(job["JobName"], job.get("Comment", ""), job["JobState"] not in ENDED)
            for job_id, job in (await hybrid.jobs()).items()
        }

    shapes = ShapeBuilder("default-scheduler").all()  # admission sets the scheduler of the bridge
    await ShapeRun(hybrid.lab, hybrid.kube, MANAGED_SPACE, jobs).run(shapes)
