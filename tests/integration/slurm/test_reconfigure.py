# SPDX-License-Identifier: Apache-2.0
"""The table of settings that need a restart, compared with the real slurmctld."""

from collections.abc import Iterator

import pytest
from tests.conftest import MakeLab
from tests.support.slurm_settings import FOLDER, changed
from tests.support.waiting import until

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm.conf import changed_restart_keys

#: Settings that are not in the table, with values that the shared Slurm does not have.
RELOADED = {
    "BatchStartTimeout": "11",
    "DebugFlags": "Reservation",
    "EnforcePartLimits": "ANY",
    "FirstJobId": "3",
    "JobCompType": "jobcomp/filetxt",
    "JobCompLoc": "/tmp/jobcomp",
    "KillWait": "31",
    "LaunchParameters": "test_exec",
    "MaxArraySize": "900",
    "MaxJobCount": "49000",
    "MaxNodeCount": "30000",
    "MessageTimeout": "17",
    "MinJobAge": "301",
    "PreemptMode": "REQUEUE",
    "PreemptType": "preempt/partition_prio",
    "PriorityType": "priority/basic",
    "SchedulerParameters": "bf_interval=77",
    "SelectTypeParameters": "CR_CPU",
    "SlurmctldDebug": "verbose",
    "SuspendTimeout": "44",
    "TopologyPlugin": "topology/flat",
}


#: The slurm.conf that commands use: one that leads to slurmctld, whatever the tests write for slurmctld.
COMMANDS_CONF = "/tmp/commands.conf"


@pytest.fixture(scope="module")
def slurm(make_lab: MakeLab) -> LabSlurm:
    """A Slurm of its own: a mistake in slurm.conf ends slurmctld."""
    return make_lab(nodes=0, slurm="alone").slurm


@pytest.fixture(autouse=True)
def original(slurm: LabSlurm) -> Iterator[str]:
    """The slurm.conf of this Slurm, which has it again after the test."""
    text = slurm.exec("cat", f"{FOLDER}/slurm.conf")
    slurm.exec("cp", f"{FOLDER}/slurm.conf", COMMANDS_CONF)
    yield text
    reconfigure(slurm, text)


def reconfigure(slurm: LabSlurm, text: str) -> None:
    """Replace slurm.conf in one step, and wait until slurmctld has read it and responds."""
    slurm.exec("sh", "-ec", f"cat > {FOLDER}/new; mv {FOLDER}/new {FOLDER}/slurm.conf", input=text)
    run(slurm, "scontrol", "reconfigure")
    until(lambda: "UP" in run(slurm, "scontrol", "ping"), "slurmctld at its port")


def run(slurm: LabSlurm, *command: str) -> str:
    """Run a command of Slurm that finds slurmctld."""
    return slurm.exec("env", f"SLURM_CONF={COMMANDS_CONF}", *command)


def pid(slurm: LabSlurm) -> str:
    """The process that listens at the port of slurmctld, whatever its name is after it has replaced its program."""
    line = next(line for line in slurm.exec("ss", "-ltnpH").splitlines() if ":6817 " in line)
    return line.partition("pid=")[2].partition(",")[0]


def config(slurm: LabSlurm) -> dict[str, str]:
    lines = slurm.exec("scontrol", "show", "config").splitlines()
    return {key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def test_settings_outside_the_table_are_changed_by_a_reconfigure_and_jobs_run_on(
    slurm: LabSlurm, original: str
) -> None:
    job = slurm.exec("sbatch", "--parsable", "--partition=work", "--wrap=sleep 600", user="alice").strip()
    until(lambda: "RUNNING" in slurm.exec("squeue", "-h", "-j", job, "-o", "%T"), "the job")
    before, process = config(slurm), pid(slurm)
    text = changed(original, RELOADED, "PartitionName=added Nodes=ext State=UP")
    assert changed_restart_keys(original, text) == ()
    reconfigure(slurm, text)
    after = config(slurm)
    same = [name for name in RELOADED if after[name.lower()] == before[name.lower()]]
    assert same == [], "slurmctld has not changed these"
    assert slurm.exec("sinfo", "-h", "-p", "added", "-o", "%P").strip() == "added"
    assert pid(slurm) == process, "the process was not restarted"
    assert slurm.exec("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    slurm.exec("scancel", job)


def test_a_reconfigure_does_not_change_the_port(slurm: LabSlurm, original: str) -> None:
    text = changed(original, {"SlurmctldPort": "7817"})
    assert changed_restart_keys(original, text) == ("SlurmctldPort",)
    process = pid(slurm)
    reconfigure(slurm, text)
    until(lambda: "= 7817" in run(slurm, "scontrol", "show", "config"), "the new port in the settings of slurmctld")
    assert ":7817 " not in slurm.exec("ss", "-ltnH")
    assert pid(slurm) == process, "it listens at the old port"
