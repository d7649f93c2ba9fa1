# SPDX-License-Identifier: Apache-2.0
"""A node crashes, is cut off, and is replaced; its worker, job, claim and drain end up right without a person."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import MakeLab
from tests.e2e.operator.site import EXTRA_CONF, OperatorSite, cluster, operator_site
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

#: slurmctld takes a host for dead sooner than by default. ReturnToService is left to the operator.
CONF = EXTRA_CONF.replace("ReturnToService=2\n", "SlurmdTimeout=9\n")
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}
#: Where the daemons of the cluster run, and the node that fails.
SAFE, FAILING = "node1", "node2"
ON_SAFE = {"spec": {"nodeSelector": {"kubernetes.io/hostname": SAFE}, "terminationGracePeriodSeconds": 5}}


def build(site: OperatorSite) -> None:
    items = cluster()
    for item in items:
        if item["kind"] in ("Controller", "RestApi"):
            item["spec"]["template"] = ON_SAFE
        if item["kind"] == "Controller":
            item["spec"]["extraConf"] = CONF
        if item["kind"] == "NodeSet":
            item["spec"]["volumeClaimTemplates"] = [CLAIM]
    site.apply(*items)
    site.wait_workers(2)


@pytest.fixture
def site(make_lab: MakeLab, tmp_path: Path) -> Iterator[OperatorSite]:
    """A cluster in a lab of its own, which the test breaks."""
    with operator_site(make_lab(nodes=2, gpus=0), tmp_path) as site:
        build(site)
        yield site


def worker_on(site: OperatorSite, node: str) -> str:
    return next(name for name, pod in site.pods().items() if pod["spec"].get("nodeName") == node)


def start_requeued_job(site: OperatorSite, host: str) -> str:
    """Start a job that another one keeps away from all other hosts; Slurm may start it again anywhere."""
    blockers = [site.start_job(other, "--exclusive") for other in site.host_states() if other != host]
    script = "until rm /tmp/go-$SLURM_JOB_ID; do sleep 0.2; done"
    argv = ("sbatch", "--parsable", "--requeue", "--chdir=/tmp", "-o", "/dev/null", f"--wrap={script}")
    job = site.exec(site.worker_of(host), *argv).strip()
    until(lambda: is_running(site, job, host), f"start of job {job} on {host}")
    for blocker in blockers:
        site.slurm("scancel", blocker)
    return job


def is_running(site: OperatorSite, job: str, host: str) -> bool:
    words = site.slurm("scontrol", "show", "job", job, "-o").split()
    return {"JobState=RUNNING", f"NodeList={host}"} <= set(words)


def claims(site: OperatorSite) -> dict[str, str]:
    items = site.lab.api.get(f"/api/v1/namespaces/{site.namespace}/persistentvolumeclaims")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def finish_elsewhere(site: OperatorSite, job: str, host: str) -> None:
    """Wait until Slurm has taken the job from a failed host, and require that it completes on another one."""
    until(lambda: site.job_state(job) == "PENDING", f"the requeue of job {job}")
    other = next(name for name in site.host_states() if name != host)
    site.slurm("scontrol", "update", f"jobid={job}", "starttime=now")  # by default it waits for two minutes
    until(lambda: is_running(site, job, other), f"start of job {job} on {other}")
    site.release_job(job, site.worker_of(other))
    until(lambda: site.job_state(job) == "COMPLETED", f"completion of job {job}")
    assert "Restarts=1" in site.slurm("scontrol", "show", "job", job)


def wait_return(site: OperatorSite, host: str) -> None:
    """Wait until both workers are in service, and run a job on the host that has failed."""
    site.wait_workers(2)
    until(lambda: set(site.host_states().values()) == {"idle"}, "the return of the host")
    runs = partial(site.exec, site.worker_of(host), "srun", "-w", host, "--chdir=/tmp", "hostname")
    assert runs().split() == [host]


def test_a_node_that_fails_and_returns_needs_no_person(site: OperatorSite) -> None:
    lab = site.lab
    worker = worker_on(site, FAILING)
    host, before = f"g-{worker.rpartition('-')[2]}", claims(site)

    # It crashes, and boots again.
    job = start_requeued_job(site, host)
    lab.crash_node(FAILING)
    finish_elsewhere(site, job, host)
    lab.start_node(FAILING)
    wait_return(site, host)

    # It is cut off, its administrator cordons it meanwhile, and it is out of service until the cordon ends.
    job = start_requeued_job(site, host)
    lab.cut_node(FAILING)
    lab.kubectl("cordon", FAILING)
    finish_elsewhere(site, job, host)
    lab.heal_node(FAILING)
    lab.wait_ready([FAILING])
    assert site.host_states().get(host) != "idle"
    lab.kubectl("uncordon", FAILING)
    wait_return(site, host)

    # It is replaced: its object is deleted, and another node of its name joins.
    uid = site.uids()[worker]
    lab.crash_node(FAILING)
    lab.kubectl("delete", "node", FAILING)
    until(lambda: site.uids().get(worker, uid) != uid, "another worker")
    lab.start_node(FAILING)
    wait_return(site, host)
    assert claims(site) == before
