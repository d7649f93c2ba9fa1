# SPDX-License-Identifier: Apache-2.0
"""Every option of the table reaches the real slurmctld, as its own tool shows it."""

import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from tests.integration.bridge.scene import Scene, scene
from tests.integration.bridge.test_gangs import batch_job

from slinky.bridge import names
from slinky.bridge.workload.annotations import TABLE
from slinky.kube import KubeClient
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import ReservationRequest, number
from slinky.slurm import SlurmClient as Slurm


class Shown(NamedTuple):
    """A value, and what `scontrol show job` has of it."""

    value: str
    words: str


#: Where the table's own example would be refused for lack of such an account, licence or time, another value stands.
PROOFS = {
    "account": Shown("lab", "Account=lab"),
    "constraints": Shown("ext", "Features=ext"),
    "cpu-per-task": Shown("2500m", "CPUs/Task=3"),
    "exclusive": Shown("false", "Exclusive=NO "),
    "gres": Shown("gres/gpu:1", "TresPerNode=gres/gpu:1"),
    "group-id": Shown("alice", "GroupId=alice"),
    "job-name": Shown("two words", "JobName=two words"),
    "licenses": Shown("lic:2", "Licenses=lic:2"),
    "mem-per-node": Shown("1Gi", "MinMemoryNode=1G"),
    "partition": Shown("all", "Partition=all"),
    "priority": Shown("0", "Priority=0"),
    "qos": Shown("high", "QOS=high"),
    "reservation": Shown("course", "Reservation=course"),
    "timelimit": Shown("1h30m", "TimeLimit=01:30:00"),
    "user-id": Shown("alice", "UserId=alice"),
    "wckey": Shown("genome", "WCKey=genome"),
    "begin": Shown("2099-01-31T06:00:00Z", "StartTime=2099-01-31T06:00:00"),
    "comment": Shown("rerun of 17", "Comment=rerun of 17"),
    "contiguous": Shown("true", "Contiguous=1"),
    "deadline": Shown("2099-01-31T06:00:00Z", "Deadline=2099-01-31T06:00:00"),
    "dependency": Shown("singleton", "Dependency=singleton"),
    "hold": Shown("true", "Reason=JobHeldUser"),
    "nice": Shown("100", "Nice=100"),
    "prefer": Shown("ext", "Prefer=ext"),
    "segment": Shown("1", "SegmentSize=1"),
    "switches": Shown("1", "Switches=1@"),
    "time-min": Shown("30m", "TimeMin=00:30:00"),
}
#: Options of a gang; the nodes of a job are as many as its pods need, so bounds on them can only agree.
OF_GANGS = {
    "gang": Shown("true", "NumNodes=4"),
    "min-nodes": Shown("4", "NumNodes=4"),
    "max-nodes": Shown("4", "NumNodes=4"),
    "pods-per-node": Shown("2", "NumNodes=2"),
}


def test_every_option_of_the_table_has_its_proof() -> None:
    assert {option.name for option in TABLE} == PROOFS.keys() | OF_GANGS.keys()


@pytest.fixture(scope="module")
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """One bridge and one node for all options; every job is held, so that none is in another's way."""
    async with scene(kube, ctld) as made:
        await made.start()
        await made.node()
        tomorrow = number(int(time.time()) + 86400)
        await ctld.write_reservation(
            ReservationRequest(
                name="course", node_list=(made.nodes[0],), users=("slurm",), start_time=tomorrow, duration=number(60)
            )
        )
        yield made
        await made.crash()
        for job in await made.jobs():
            await ctld.cancel(job.job_id)
        await ctld.delete_reservation("course")


async def shown(stage: Scene, slurm: Beside, pod: str) -> str:
    job = await stage.job_of(pod)
    # A key that the cluster does not track is kept with the job, but scontrol does not show it.
    return slurm.exec("scontrol", "show", "job", str(job.job_id)) + f" WCKey={job.wckey}"


@pytest.mark.parametrize("name", PROOFS)
async def test_an_option_reaches_slurmctld(stage: Scene, slurm: Beside, name: str) -> None:
    given = {"hold": "true", name: PROOFS[name].value}
    if name == "qos":
        given |= {"user-id": "alice", "account": "lab"}
    await stage.pod(f"with-{name}", annotations={names.OPTION + key: value for key, value in given.items()})
    assert PROOFS[name].words in await shown(stage, slurm, f"with-{name}")


@pytest.mark.parametrize("name", OF_GANGS)
async def test_an_option_of_a_gang_reaches_slurmctld(stage: Scene, slurm: Beside, name: str) -> None:
    notes = {names.OPTION + "hold": "true", names.OPTION + name: OF_GANGS[name].value}
    label = await batch_job(stage, 4, f"gang-{name}", **notes)
    for rank in range(4):
        await stage.pod(f"gang-{name}-{rank}", labels=label)
    assert OF_GANGS[name].words in await shown(stage, slurm, f"gang-{name}-0")
