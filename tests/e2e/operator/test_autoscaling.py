# SPDX-License-Identifier: Apache-2.0
"""A NodeSet without workers that follows the queue: real jobs on real kubelets, from zero to two and back."""

from functools import partial
from typing import Any

import pytest
from tests.e2e.operator.site import OperatorSite, cluster, node_set
from tests.support.waiting import until

pytestmark = pytest.mark.lab

#: Files that every container has stand for devices.
DEVICES = "AutoDetect=off\nName=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
GRES = {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": DEVICES}
#: Jobs that others are in front of are started by backfill.
FAST = "GresTypes=gpu\nSchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=5\n"
POLICY: dict[str, Any] = {"maxReplicas": 2, "scaleIn": {"idleFor": "1s"}}
OFFER = "CPUs=2 RealMemory=500 Gres=gpu:2 Feature=fast"


def build(site: OperatorSite) -> None:
    manifests = cluster()
    manifests[2] = {**manifests[2], "data": GRES}
    manifests[3]["spec"]["extraConf"] += FAST
    workers = node_set(0, extraConf=OFFER, autoscaling=POLICY, partition={"enabled": True})
    site.apply(*manifests[:-1], workers)
    until(lambda: site.condition("nodeset", "gpu", "AutoscalingActive").get("status") == "True", "the autoscaler")


def submit(site: OperatorSite, *options: str, command: str = "true", partition: str = "g") -> str:
    argv = ("sbatch", "--parsable", "-p", partition, "--chdir=/tmp", "-o", "/dev/null", *options, f"--wrap={command}")
    return site.slurm(*argv).strip()


def is_completed(site: OperatorSite, job: str) -> bool:
    """Whether the job, or every task of the array, has completed."""
    lines = site.slurm("scontrol", "show", "job", job, "-o", check=False).splitlines()
    return bool(lines) and all("JobState=COMPLETED" in line for line in lines)


def decisions(site: OperatorSite) -> list[tuple[int, int, str]]:
    """The changes that the autoscaler has made, the latest first."""
    records = site.status("nodeset", "gpu")["autoscaling"].get("decisions", [])
    return [(item.get("before", 0), item.get("after", 0), item["reason"]) for item in records]


def test_workers_come_with_jobs_and_go_without(site: OperatorSite) -> None:
    assert site.pods() == {}
    # What could be there is visible, and Slurm takes jobs for it.
    potential = site.slurm("sinfo", "-h", "--future", "-p", "g", "-o", "%t %D %G %b")
    assert potential.split() == ["futr", "2", "gpu:2", "fast,g"]
    impossible = submit(site, "-N3")
    jobs = {
        "a gang of two": submit(site, "-N2", command="srun -N2 hostname"),
        "a single job": submit(site),
        "an array": submit(site, "--array=0-3"),
        "a job with devices": submit(site, "--gres=gpu:2"),
        "a gang with devices": submit(site, "-N2", "--gres=gpu:2"),
        "a job with a feature": submit(site, "--constraint=fast"),
    }
    for name, job in jobs.items():
        until(partial(is_completed, site, job), f"completion of {name}")
    status = site.status("nodeset", "gpu")["autoscaling"]
    text = f"Job {impossible}: it needs 3 workers at the same time, more than the 2 that gpu may have"
    assert status["impossibleJobs"] == [text]
    assert site.job_state(impossible) == "PENDING"
    until(lambda: not site.pods(), "no worker")
    assert decisions(site)[-1][1:] == (2, "PendingJobs")
    assert decisions(site)[0][1:] == (0, "IdleWorkers")
    site.slurm("scancel", impossible)


def test_a_job_that_only_workers_of_tomorrow_can_run_is_neither_refused_nor_held(site: OperatorSite) -> None:
    """Without potential nodes slurmctld judges the job by the worker that exists, which has no devices."""
    plain = node_set(1, extraConf="CPUs=2 RealMemory=500")
    plain["metadata"]["name"] = "plain"
    plain["spec"]["template"]["spec"]["hostname"] = "p-"
    site.apply(plain)
    until(lambda: "idle" in site.host_states().values(), "a worker without devices")
    job = submit(site, "--gres=gpu:2", "--mem=400", partition="all")
    until(lambda: is_completed(site, job), "completion of the job with devices")
    assert decisions(site)[0][2] in {"PendingJobs", "IdleWorkers"}
    until(lambda: set(site.pods()) == {"plain-0"}, "only the worker without devices")
