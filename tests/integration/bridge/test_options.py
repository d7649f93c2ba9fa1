# SPDX-License-Identifier: Apache-2.0
"""Every option of the table reaches the real slurmctld, as scontrol shows it."""

import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage

from slinky.bridge import names
from slinky.bridge.workload.annotations import TABLE
from slinky.kube import KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import ReservationRequest, number
from slinky.slurm import SlurmClient as Slurm


class Proof(NamedTuple):
    """A value, and the text in `scontrol show job` that proves it."""

    value: str
    text: str


#: Values that the lab's Slurm accepts; it has not the accounts, licences and times of the table's own examples.
PROOFS = {
    "account": Proof("lab", "Account=lab"),
    "constraints": Proof("ext", "Features=ext"),
    "cpu-per-task": Proof("2500m", "CPUs/Task=3"),
    "exclusive": Proof("false", "Exclusive=NO "),
    "gres": Proof("gres/gpu:1", "TresPerNode=gres/gpu:1"),
    "group-id": Proof("alice", "GroupId=alice"),
    "job-name": Proof("two words", "JobName=two words"),
    "licenses": Proof("lic:2", "Licenses=lic:2"),
    "mem-per-node": Proof("1Gi", "MinMemoryNode=1G"),
    "partition": Proof("all", "Partition=all"),
    "priority": Proof("0", "Priority=0"),
    "qos": Proof("high", "QOS=high"),
    "reservation": Proof("course", "Reservation=course"),
    "timelimit": Proof("1h30m", "TimeLimit=01:30:00"),
    "user-id": Proof("alice", "UserId=alice"),
    "wckey": Proof("genome", "WCKey=genome"),
    "begin": Proof("2099-01-31T06:00:00Z", "StartTime=2099-01-31T06:00:00"),
    "comment": Proof("rerun of 17", "Comment=rerun of 17"),
    "contiguous": Proof("true", "Contiguous=1"),
    "deadline": Proof("2099-01-31T06:00:00Z", "Deadline=2099-01-31T06:00:00"),
    "dependency": Proof("singleton", "Dependency=singleton"),
    "hold": Proof("true", "Reason=JobHeldUser"),
    "nice": Proof("100", "Nice=100"),
    "prefer": Proof("ext", "Prefer=ext"),
    "segment": Proof("1", "SegmentSize=1"),
    "switches": Proof("1", "Switches=1@"),
    "time-min": Proof("30m", "TimeMin=00:30:00"),
}
#: Options of gangs. A job has as many nodes as its pods need, so the bounds must allow that number.
GANG_PROOFS = {
    "gang": Proof("true", "NumNodes=4"),
    "min-nodes": Proof("4", "NumNodes=4"),
    "max-nodes": Proof("4", "NumNodes=4"),
    "pods-per-node": Proof("2", "NumNodes=2"),
}


def test_every_option_of_the_table_has_its_proof() -> None:
    assert {option.name for option in TABLE} == PROOFS.keys() | GANG_PROOFS.keys()


@pytest.fixture(scope="module")
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """One bridge and one node for all options; every job is held, so that no test disturbs another."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        await stage.add_node()
        tomorrow = number(int(time.time()) + 86400)
        await ctld.write_reservation(
            ReservationRequest(
                name="course", node_list=(stage.nodes[0],), users=("slurm",), start_time=tomorrow, duration=number(60)
            )
        )
        yield stage
        await stage.crash()
        for job in await stage.jobs():
            await ctld.cancel(job.job_id)
        await ctld.delete_reservation("course")


async def show_job(stage: BridgeStage, slurm: LabSlurm, pod: str) -> str:
    job = await stage.wait_job(pod)
    # slurmctld keeps a WCKey that the cluster does not track, but scontrol does not show it.
    return slurm.exec("scontrol", "show", "job", str(job.job_id)) + f" WCKey={job.wckey}"


@pytest.mark.parametrize("name", PROOFS)
async def test_an_option_reaches_slurmctld(stage: BridgeStage, slurm: LabSlurm, name: str) -> None:
    given = {"hold": "true", name: PROOFS[name].value}
    if name == "qos":
        given |= {"user-id": "alice", "account": "lab"}
    await stage.create_pod(f"with-{name}", annotations={names.OPTION + key: value for key, value in given.items()})
    assert PROOFS[name].text in await show_job(stage, slurm, f"with-{name}")


@pytest.mark.parametrize("name", GANG_PROOFS)
async def test_an_option_of_a_gang_reaches_slurmctld(stage: BridgeStage, slurm: LabSlurm, name: str) -> None:
    options = {names.OPTION + "hold": "true", names.OPTION + name: GANG_PROOFS[name].value}
    label = await stage.create_batch_job(4, f"gang-{name}", options=options)
    for rank in range(4):
        await stage.create_pod(f"gang-{name}-{rank}", labels=label)
    assert GANG_PROOFS[name].text in await show_job(stage, slurm, f"gang-{name}-0")
