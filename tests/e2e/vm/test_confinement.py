# SPDX-License-Identifier: Apache-2.0
"""Jobs are confined with the operator's defaults, on a node with cgroup version 2 only.

One lab serves all tests: slurmctld runs on a node in namespaces, the worker in a virtual machine. Its processor is
emulated where KVM does not boot, so every test is one or two short jobs.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import MakeLab
from tests.e2e.operator.site import OperatorSite, cluster, manifest, operator_site
from tests.support.waiting import until

from slinky.lab.kubernetes.node import KIND_LABEL, SHARED, VOLUMES
from slinky.lab.lab import Lab

pytestmark = pytest.mark.fault

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
EXAMPLE = Path(__file__).parents[3] / "examples/operator/unprivileged-workers.yaml"


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


@pytest.fixture(scope="module")
def vm_lab(make_lab: MakeLab) -> Lab:
    return make_lab(nodes=1, vms=1, gpus=1)


@pytest.fixture(scope="module")
def workers(vm_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinementSite]:
    with operator_site(vm_lab, tmp_path_factory.mktemp("confinement")) as site:
        built = ConfinementSite(site)
        built.build()
        yield built


def test_the_node_has_its_own_kernel_and_cgroup_version_2_only(vm_lab: Lab) -> None:
    machine = vm_lab.node_machine("node2")
    assert machine.run(["stat", "-fc", "%T", "/sys/fs/cgroup"]).stdout == "cgroup2fs\n"
    assert "kubelet" in {name for name, state in machine.status().items() if state["pid"]}
    assert "kubelet" in {file.stem for file in machine.logs.glob("*.log")}
    assert machine.run(["sh", "-c", "exit 7"], check=False).returncode == 7


def test_the_node_has_the_gpus_and_the_storage_of_every_node(vm_lab: Lab) -> None:
    def slices() -> set[str]:
        items = vm_lab.api.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
        return {item["spec"].get("nodeName", "") for item in items}

    until(lambda: slices() >= {"node1", "node2"}, "GPUs of both nodes")
    (vm_lab.folder / "shared" / "all").write_text("of all nodes")
    (vm_lab.folder / "node2" / "volumes" / "own").write_text("of one node")
    seen = vm_lab.node_machine("node2").run(["cat", f"{SHARED}/all", f"{VOLUMES}/own"]).stdout
    assert seen == "of all nodesof one node"


def test_slurm_says_that_it_confines(workers: ConfinementSite) -> None:
    assert workers.setting("TaskPlugin") == "task/cgroup,task/affinity"
    assert workers.setting("PrologFlags") == "Alloc,Contain"
    assert workers.setting("JobAcctGatherType") == "jobacct_gather/cgroup"
    constrained = [workers.setting(f"Constrain{name}") for name in ("Cores", "Devices", "RAMSpace", "SwapSpace")]
    assert constrained == ["yes"] * 4


def test_a_job_that_uses_more_memory_than_it_asked_for_is_killed_and_the_worker_lives(workers: ConfinementSite) -> None:
    before = workers.identity()
    assert workers.run_job(ALICE, eat(300), "--mem=100M")[0] == "OUT_OF_MEMORY"
    assert workers.run_job(ALICE, eat(50), "--mem=100M")[0] == "COMPLETED"
    assert workers.identity() == before


def test_a_job_that_fills_the_pod_leaves_slurmd_its_memory(workers: ConfinementSite) -> None:
    before = workers.identity()
    pod = "/sys/fs/cgroup$(dirname $(cut -d: -f3 /proc/1/cgroup))"
    limit = int(workers.site.exec(WORKER, "sh", "-c", f"cat {pod}/memory.max"))
    assert limit == (LIMIT_MIB + LOGFILE_MIB) << 20
    refused = workers.run_as(ALICE, "srun", "-I30", f"--mem={OFFERED_MIB + 1}M", "true", check=False)
    assert refused == ""
    assert workers.run_job(ALICE, eat(LIMIT_MIB + 300), f"--mem={OFFERED_MIB}M")[0] == "OUT_OF_MEMORY"
    assert workers.identity() == before
    until(lambda: workers.site.has_workers(1), "a worker in service")


def test_jobs_of_two_users_have_cores_of_their_own_and_cannot_signal_each_other(workers: ConfinementSite) -> None:
    wait = "until rm /tmp/go-$SLURM_JOB_ID 2>/dev/null; do sleep 1; done"
    script = f"echo $$; nproc; grep Cpus_allowed_list /proc/self/status; {wait}"
    jobs = {user: workers.submit(user, script, "--mem=100M") for user in (ALICE, BOB)}
    until(lambda: all(workers.site.job_state(job) == "RUNNING" for job in jobs.values()), "two running jobs")

    def lines(job: str) -> list[str]:
        return workers.site.exec(WORKER, "cat", f"/tmp/job-{job}").splitlines()

    until(lambda: all(len(lines(job)) == 3 for job in jobs.values()), "the output of both jobs")
    (alice, one, cores), (_, other, other_cores) = (lines(job) for job in jobs.values())
    assert (one, other) == ("1", "1")
    assert cores != other_cores
    refusal = workers.run_as(BOB, "sh", "-c", f"kill -9 {alice} 2>&1", check=False)
    assert "not permitted" in refusal
    workers.run_as(BOB, "scancel", jobs[ALICE], check=False)
    workers.run_as(BOB, "scancel", jobs[BOB])
    until(lambda: workers.site.job_state(jobs[BOB]) == "CANCELLED", "the end of one job")
    assert workers.site.job_state(jobs[ALICE]) == "RUNNING"
    workers.run_as(ALICE, "touch", f"/tmp/go-{jobs[ALICE]}")
    until(lambda: workers.site.job_state(jobs[ALICE]) == "COMPLETED", "the end of the other job")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_job_opens_the_devices_that_it_asked_for_and_no_others(workers: ConfinementSite, count: int) -> None:
    script = "; ".join(f"(: <{gpu}) 2>/dev/null && echo open || echo refused" for gpu in GPUS)
    state, output = workers.run_job(ALICE, script, "--mem=100M", *([f"--gres=gpu:{count}"] if count else []))
    assert (state, output.split().count("open"), output.split().count("refused")) == ("COMPLETED", count, 2 - count)


def test_a_worker_without_privileges_confines_jobs_inside_its_own_cgroup(workers: ConfinementSite) -> None:
    example = {item["kind"]: item for item in yaml.safe_load_all(EXAMPLE.read_text())}
    workers.site.lab.kubectl("apply", "-f", "-", input=json.dumps(example["RuntimeClass"]))
    # The container has no devices that could be GRES.
    workers.site.apply({**FILES, "data": {"gres.conf": "AutoDetect=off\n", **example["ConfigMap"]["data"]}})
    until(lambda: workers.setting("ConstrainDevices") == "no", "the configuration of the example")
    spec = example["NodeSet"]["spec"]
    template = on_nodes("vm", hostname="g-", **spec["template"]["spec"])
    slurmd = {**spec["slurmd"], "resources": {"limits": {"cpu": "2", "memory": f"{LIMIT_MIB}Mi"}}, **PATIENCE}
    first = workers.identity()[0]
    workers.site.apply(worker(slurmd=slurmd, template=template, extraConf="Weight=2"))
    until(lambda: workers.site.uids().get(WORKER, first) != first, "another worker")
    workers.wait_worker()
    before = workers.identity()
    assert workers.run_job(ALICE, eat(300), "--mem=100M")[0] == "OUT_OF_MEMORY"
    state, output = workers.run_job(BOB, "nproc", "--mem=100M")
    assert (state, output) == ("COMPLETED", "1\n")
    assert workers.run_job(ALICE, eat(LIMIT_MIB + 300), f"--mem={OFFERED_MIB}M")[0] == "OUT_OF_MEMORY"
    assert workers.identity() == before


def test_a_node_that_is_cut_off_takes_commands_and_one_that_crashed_boots_again(vm_lab: Lab) -> None:
    vm_lab.cut_node("node2")
    machine = vm_lab.node_machine("node2")
    assert machine.run(["cat", "/proc/sys/kernel/hostname"]).stdout == "node2\n"
    machine.run(["touch", "/var/lib/kubelet/kept"])
    machine.run(["sync"])
    vm_lab.heal_node("node2")
    vm_lab.crash_node("node2")
    assert not machine.alive()
    vm_lab.start_node("node2")
    until(lambda: vm_lab.node_machine("node2").has_file("/var/lib/kubelet/kept"), "the disk that the node had")
    vm_lab.wait_ready(["node2"], seconds=500)
