# SPDX-License-Identifier: Apache-2.0
"""A NodeSet without workers that follows the queue: real jobs on real kubelets, from zero to two and back."""

import re
from typing import Any

import pytest
from tests.e2e.operator.elastic_jobs import DEVICES, OFFER, is_completed, run_jobs, submit
from tests.e2e.operator.site import OperatorSite, cluster, node_set
from tests.support.waiting import until

pytestmark = pytest.mark.lab

GRES = {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": DEVICES}
#: Jobs that others are in front of are started by backfill.
FAST = "GresTypes=gpu\nSchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=5\n"
POLICY: dict[str, Any] = {"maxReplicas": 2, "scaleIn": {"idleFor": "1s"}}


def build(site: OperatorSite) -> None:
    manifests = cluster()
    manifests[2] = {**manifests[2], "data": GRES}
    manifests[3]["spec"]["extraConf"] += FAST
    workers = node_set(0, extraConf=OFFER, autoscaling=POLICY, partition={"enabled": True})
    site.apply(*manifests[:-1], workers)
    until(lambda: site.condition("nodeset", "gpu", "AutoscalingActive").get("status") == "True", "the autoscaler")


def decisions(site: OperatorSite) -> list[tuple[int, int, str]]:
    """The changes that the autoscaler has made, the latest first."""
    records = site.status("nodeset", "gpu")["autoscaling"].get("decisions", [])
    return [(item.get("before", 0), item.get("after", 0), item["reason"]) for item in records]


def test_workers_come_with_jobs_and_go_without(site: OperatorSite) -> None:
    assert site.pods() == {}
    # What could be there is visible, and Slurm takes jobs for it.
    potential = site.slurm("sinfo", "-h", "--future", "-p", "g", "-o", "%t %D %G %b")
    assert potential.split() == ["futr", "2", "gpu:2", "fast,g"]
    # slurmctld runs no program that creates workers.
    assert re.search(r"ResumeProgram\s+= \(null\)", site.slurm("scontrol", "show", "config"))
    run_jobs(site, "g", "gpu")
    until(lambda: not site.pods(), "no worker")
    assert decisions(site)[-1][1:] == (2, "PendingJobs")
    assert decisions(site)[0][1:] == (0, "IdleWorkers")


def test_a_job_that_only_workers_of_tomorrow_can_run_is_neither_refused_nor_held(site: OperatorSite) -> None:
    """Without potential nodes slurmctld judges the job by the worker that exists, which has no devices."""
    plain = node_set(1, extraConf="CPUs=2 RealMemory=500")
    plain["metadata"]["name"] = "plain"
    plain["spec"]["template"]["spec"]["hostname"] = "p-"
    site.apply(plain)
    until(lambda: "idle" in site.host_states().values(), "a worker without devices")
    job = submit(site, "all", "--gres=gpu:2", "--mem=400")
    until(lambda: is_completed(site, job), "completion of the job with devices")
    assert decisions(site)[0][2] in {"PendingJobs", "IdleWorkers"}
    until(lambda: set(site.pods()) == {"plain-0"}, "only the worker without devices")
