# SPDX-License-Identifier: Apache-2.0
"""Jobs are confined with the operator's defaults, on a node with cgroup version 2 only."""

import pytest
from tests.e2e.vm.confinement_site import (
    ALICE,
    BOB,
    GPUS,
    LIMIT_MIB,
    LOGFILE_MIB,
    OFFERED_MIB,
    WORKER,
    ConfinementSite,
    eat,
)
from tests.support.waiting import until

from slinky.lab.lab import Lab

pytestmark = pytest.mark.fault

#: Prints how much memory and how much swap the job may use.
LIMITS = "cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | sed s,/step_.*,,); cat memory.max memory.swap.max"


def test_the_node_has_its_own_kernel_and_cgroup_version_2_only(vm_lab: Lab) -> None:
    machine = vm_lab.node_machine("node2")
    assert machine.run(["stat", "-fc", "%T", "/sys/fs/cgroup"]).stdout == "cgroup2fs\n"
    assert "kubelet" in {name for name, state in machine.status().items() if state["pid"]}
    assert "kubelet" in {file.stem for file in machine.logs.glob("*.log")}
    assert machine.run(["sh", "-c", "exit 7"], check=False).returncode == 7


def test_slurm_says_that_it_confines(workers: ConfinementSite) -> None:
    assert workers.setting("TaskPlugin") == "task/cgroup,task/affinity"
    assert workers.setting("PrologFlags") == "Alloc,Contain"
    assert workers.setting("JobAcctGatherType") == "jobacct_gather/cgroup"
    constrained = [workers.setting(f"Constrain{name}") for name in ("Cores", "Devices", "RAMSpace", "SwapSpace")]
    assert constrained == ["yes"] * 4


def test_a_job_that_uses_more_memory_than_it_asked_for_is_killed(workers: ConfinementSite) -> None:
    before = workers.identity()
    assert workers.run_job(ALICE, eat(300), "--mem=100M")[0] == "OUT_OF_MEMORY"
    state, output = workers.run_job(ALICE, f"{eat(50)}; {LIMITS}", "--mem=100M")
    assert (state, output.splitlines()[-2:]) == ("COMPLETED", [str(100 << 20), "0"])
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
