# SPDX-License-Identifier: Apache-2.0
"""Jobs for a NodeSet of at most two workers that come with the jobs, whichever autoscaler sets their number."""

from functools import partial

from tests.e2e.operator.site import SlurmSite
from tests.support.waiting import until

#: What a worker offers. Files that every container has stand for devices.
OFFER = "CPUs=2 RealMemory=500 Gres=gpu:2 Feature=fast"
DEVICES = "AutoDetect=off\nName=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
#: Options of sbatch and the command, by what the job is an example of.
JOBS = {
    "a gang of two": (("-N2",), "srun -N2 hostname"),
    "a single job": ((), "true"),
    "an array": (("--array=0-3",), "true"),
    "a job with devices": (("--gres=gpu:2",), "true"),
    "a gang with devices": (("-N2", "--gres=gpu:2"), "true"),
    "a job with a feature": (("--constraint=fast",), "true"),
}


def submit(site: SlurmSite, partition: str, *options: str, command: str = "true") -> str:
    argv = ("sbatch", "--parsable", "-p", partition, "--chdir=/tmp", "-o", "/dev/null", *options, f"--wrap={command}")
    return site.slurm(*argv).strip()


def is_completed(site: SlurmSite, job: str) -> bool:
    """Whether the job, or every task of the array, has completed."""
    lines = site.slurm("scontrol", "show", "job", job, "-o", check=False).splitlines()
    return bool(lines) and all("JobState=COMPLETED" in line for line in lines)


def run_jobs(site: SlurmSite, partition: str, node_set: str) -> None:
    """Submit one job of each kind and wait for all of them; the one that can never run is told why, and cancelled."""
    impossible = submit(site, partition, "-N3")
    jobs = {name: submit(site, partition, *options, command=command) for name, (options, command) in JOBS.items()}
    for name, job in jobs.items():
        until(partial(is_completed, site, job), f"completion of {name}")
    text = f"Job {impossible}: it needs 3 workers at the same time, more than the 2 that {node_set} may have"
    assert site.status("nodeset", node_set)["autoscaling"]["impossibleJobs"] == [text]
    assert site.job_state(impossible) == "PENDING"
    site.slurm("scancel", impossible)
