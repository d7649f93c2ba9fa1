# SPDX-License-Identifier: Apache-2.0
"""Straight answers: what a pod says about its job, as the real slurmctld tells it."""

from tests.integration.bridge.scene import Scene, eventually

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.kube import Key
from slinky.kube.conditions import find_condition
from slinky.lab.slurm.cluster import Beside

OPTION = names.OPTION


async def says_of(stage: Scene, name: str, *words: str, seconds: float = 40) -> str:
    """Wait until the pod's condition has all of these words; its message."""

    async def told() -> str:
        condition = find_condition((await stage.get(name)).status.conditions, names.SCHEDULED)
        assert condition is not None
        assert all(word in condition.message for word in words), condition.message
        return condition.message

    message: str = await eventually(told, f"{name} to say {words}", seconds)
    return message


async def test_a_waiting_pod_tells_job_state_reason_place_and_expected_start(stage: Scene) -> None:
    await stage.pod("first", annotations={OPTION + "timelimit": "10"})
    await stage.bound("first")
    await stage.pod("second", annotations={OPTION + "timelimit": "10"})
    second = await stage.job_of("second")
    await stage.pod("third", annotations={OPTION + "timelimit": "10"})
    third = await stage.job_of("third")
    await says_of(
        stage, "second", f"job {second.job_id} is PENDING", "waiting for nodes to become free", "Position 1 among"
    )
    await says_of(stage, "third", f"job {third.job_id} is PENDING", "Position 2 among")
    # slurmctld expects a start when it next plans ahead, which it does for a queue that changes.
    await stage.pod("fourth", annotations={OPTION + "timelimit": "10"})
    await says_of(stage, "third", "Position 2 among", "Expected to start at 20", seconds=150)
    await stage.phase("first", "Succeeded", 0)
    await stage.bound("second")
    await says_of(stage, "third", "Position 1 among")  # and it hears when it moves up
    events = await stage.events("third")
    assert events & {"Resources", "Priority", "Pending"}


async def test_a_pod_names_what_blocks_it(stage: Scene, slurm: Beside) -> None:
    await stage.pod("first")
    first = await stage.job_of("first")
    await stage.pod("after", annotations={OPTION + "dependency": f"afterany:{first.job_id}"})
    await says_of(stage, "after", "The job depends on another job: afterany:", str(first.job_id))
    await stage.pod("later", annotations={OPTION + "begin": "2099-01-01T00:00:00Z"})
    await says_of(stage, "later", "begin time of the job is in the future", "2099-01-01T00:00:00Z")
    await stage.pod("greedy", annotations={OPTION + "licenses": "lic:4", OPTION + "exclusive": "false"})
    await stage.pod("held", annotations={OPTION + "hold": "true"})
    await says_of(stage, "held", "The job is held", "scontrol release")
    # What an administrator does to a waiting job is told as well.
    await stage.pod("second")
    second = await stage.job_of("second")
    slurm.exec("scontrol", "hold", str(second.job_id))
    await says_of(stage, "second", "An administrator holds the job")
    slurm.exec("scontrol", "release", str(second.job_id))
    await says_of(stage, "second", "is PENDING", "Position ")


async def test_a_suspended_job_keeps_its_pod_and_says_so_until_it_is_resumed(stage: Scene, slurm: Beside) -> None:
    await stage.pod()
    await stage.bound()
    await stage.phase("p", "Running")
    job = await stage.job_of()
    slurm.exec("scontrol", "suspend", str(job.job_id))
    assert "scontrol resume" in await stage.says("p", "Suspended")
    assert not (await stage.get()).metadata.deleting
    await stage.crash()
    await stage.start()  # nor is it forgotten by a bridge that comes to it suspended
    await stage.says("p", "Suspended")
    slurm.exec("scontrol", "resume", str(job.job_id))
    await stage.says("p", "Allocated")
    await stage.phase("p", "Succeeded", 0)
    await stage.state(job, "CANCELLED")


async def test_an_unbound_pod_of_a_suspended_job_starts_when_it_is_resumed(stage: Scene, slurm: Beside) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.phase("first", "Running")
    await stage.pod("second")
    job = await stage.job_of("second")
    await stage.slurm.cancel((await stage.job_of("first")).job_id)
    await stage.says("second", "NodeClearing")
    slurm.exec("scontrol", "suspend", str(job.job_id))
    await stage.says("second", "Suspended")
    await stage.stopped("first")
    slurm.exec("scontrol", "resume", str(job.job_id))
    await stage.bound("second", 60)


async def test_a_pod_that_demands_what_slurm_cannot_give_says_so_and_gets_no_job(stage: Scene) -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    await stage.pod(affinity={"podAntiAffinity": rule})
    assert "podAntiAffinity is not supported" in await stage.says("p", "NotSupported")
    assert await stage.jobs() == []
    await stage.client.delete(OUR_PODS, Key(stage.namespace, "p"))
