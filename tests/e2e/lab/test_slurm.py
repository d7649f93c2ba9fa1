# SPDX-License-Identifier: Apache-2.0
"""The Slurm beside Kubernetes is a whole Slurm: real daemons, real jobs, accounting, REST, external nodes."""

import json
import urllib.request

import pytest

from slinky.lab.machine.machine import until
from slinky.lab.slurm.cluster import Beside

pytestmark = pytest.mark.lab


def rest(slurm: Beside, path: str) -> dict[str, object]:
    request = urllib.request.Request(f"{slurm.url}{path}", headers={"X-SLURM-USER-TOKEN": slurm.token()})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the lab's own address
        answered: dict[str, object] = json.load(answer)
        return answered


def test_a_batch_job_runs_and_accounting_knows_it(slurm: Beside) -> None:
    assert slurm.sbatch("echo job on $(hostname) as $(id -un)") == "job on ctl as alice\n"
    recorded = slurm.exec("sacct", "-n", "-X", "-P", "-u", "alice", "-o", "State,Account").splitlines()
    assert "COMPLETED|lab" in recorded


def test_a_parallel_step_crosses_hosts(slurm: Beside) -> None:
    said = slurm.exec("srun", "-N2", "-l", "printenv", "SLURMD_NODENAME", user="alice")
    assert sorted(said.split()) == ["0:", "1:", "c1", "c2"]


def test_rest_answers_to_a_token_from_outside_the_machine(slurm: Beside) -> None:
    answer = rest(slurm, "/slurm/v0.0.45/ping/")
    assert not answer["errors"]


def test_external_nodes_exist_without_a_daemon(slurm: Beside) -> None:
    names = slurm.add_external_nodes(3, prefix="e00", gpus=8)
    try:
        states = slurm.exec("sinfo", "-h", "-N", "-p", "ext", "-n", ",".join(names), "-o", "%N %T %G").splitlines()
        assert [line.split()[0] for line in states] == ["e00001", "e00002", "e00003"]
        assert all("idle" in line and "gpu:h100:8" in line for line in states)
    finally:
        slurm.remove_nodes("e[00001-00003]")


@pytest.mark.parametrize("signal", [15, 9])
def test_slurmctld_started_again_finds_its_jobs_alive(slurm: Beside, signal: int) -> None:
    job = slurm.exec("sbatch", "--parsable", "--wrap=sleep 9", user="alice").strip()
    until(lambda: "RUNNING" in slurm.exec("squeue", "-h", "-j", job, "-o", "%T"), "the job to run", 30)
    slurm.exec("sleep", "5")  # a kill loses what is younger than the last save
    slurm.stop("slurmctld", signal)
    slurm.start("slurmctld")
    slurm.wait_idle()
    until(lambda: "COMPLETED" in slurm.exec("sacct", "-n", "-X", "-j", job, "-o", "State"), "the job to end", 60)
