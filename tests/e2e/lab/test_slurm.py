# SPDX-License-Identifier: Apache-2.0
"""The Slurm beside Kubernetes: real daemons, real jobs, accounting, REST, external nodes."""

import json
import urllib.request

import pytest
from tests.support.waiting import until

from slinky.lab.slurm.cluster import LabSlurm

pytestmark = pytest.mark.lab


def rest(slurm: LabSlurm, path: str) -> dict[str, object]:
    request = urllib.request.Request(f"{slurm.url}{path}", headers={"X-SLURM-USER-TOKEN": slurm.token()})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the lab's own address
        content: dict[str, object] = json.load(answer)
        return content


def test_accounting_has_a_batch_job(slurm: LabSlurm) -> None:
    assert slurm.sbatch("echo job on $(hostname) as $(id -un)") == "job on ctl as alice\n"
    records = slurm.exec("sacct", "-n", "-X", "-P", "-u", "alice", "-o", "State,Account").splitlines()
    assert "COMPLETED|lab" in records


def test_a_parallel_step_crosses_hosts(slurm: LabSlurm) -> None:
    output = slurm.exec("srun", "-N2", "-l", "printenv", "SLURMD_NODENAME", user="alice")
    assert sorted(output.split()) == ["0:", "1:", "c1", "c2"]


def test_rest_answers_to_a_token_from_outside_the_machine(slurm: LabSlurm) -> None:
    answer = rest(slurm, "/slurm/v0.0.45/ping/")
    assert not answer["errors"]


def test_external_nodes_exist_without_a_daemon(slurm: LabSlurm) -> None:
    names = slurm.add_external_nodes(3, prefix="e00", gpus=8)
    try:
        states = slurm.exec("sinfo", "-h", "-N", "-p", "ext", "-n", ",".join(names), "-o", "%N %T %G").splitlines()
        assert [line.split()[0] for line in states] == ["e00001", "e00002", "e00003"]
        assert all("idle" in line and "gpu:h100:8" in line for line in states)
    finally:
        slurm.remove_nodes("e[00001-00003]")


def save_state(slurm: LabSlurm, job: str) -> None:
    """Wait until slurmctld has saved a job as it is now; a kill loses what is younger than the last save."""
    slurm.exec("touch", f"/tmp/before-{job}")
    slurm.exec("scontrol", "update", f"jobid={job}", "comment=saved")
    newer = ("find", "/var/lib/slurm/ctld/job_state", "-newer", f"/tmp/before-{job}")
    until(lambda: slurm.exec(*newer).strip(), "the saved state of slurmctld")


@pytest.mark.parametrize("signal", [15, 9])
def test_a_restarted_slurmctld_has_its_running_jobs(slurm: LabSlurm, signal: int) -> None:
    script = "until [ -e /tmp/go-$SLURM_JOB_ID ]; do sleep 0.1; done"
    job = slurm.exec("sbatch", "--parsable", f"--wrap={script}", user="alice").strip()
    until(lambda: "RUNNING" in slurm.exec("squeue", "-h", "-j", job, "-o", "%T"), "the start of the job")
    save_state(slurm, job)
    slurm.stop("slurmctld", signal)
    slurm.start("slurmctld")
    until(lambda: "RUNNING" in slurm.exec("squeue", "-h", "-j", job, "-o", "%T"), "the job")
    slurm.exec("touch", f"/tmp/go-{job}")
    until(lambda: "COMPLETED" in slurm.exec("sacct", "-n", "-X", "-j", job, "-o", "State"), "the end of the job")
    slurm.wait_idle()
