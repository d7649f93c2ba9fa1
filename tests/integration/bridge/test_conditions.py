# SPDX-License-Identifier: Apache-2.0
"""What the condition of a pod says about its job, as the real slurmctld reports it."""

from datetime import UTC, datetime

from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS
from slinky.cli.access.reader import read_snapshot
from slinky.insight.forecast import forecast
from slinky.kube import Key
from slinky.kube.conditions import find_condition
from slinky.lab.slurm.cluster import LabSlurm

OPTION = names.OPTION


async def wait_message(stage: BridgeStage, name: str, *parts: str) -> None:
    """Wait until the message of the pod's condition has all of these parts."""

    async def has_parts() -> bool:
        condition = find_condition((await stage.get_pod(name)).status.conditions, names.SCHEDULED)
        assert condition is not None
        assert all(part in condition.message for part in parts), condition.message
        return True

    await eventually(has_parts, f"{parts} in the condition of {name}")


async def test_a_waiting_pod_shows_job_state_reason_position_and_expected_start(stage: BridgeStage) -> None:
    await stage.create_pod("first", annotations={OPTION + "timelimit": "10"})
    await stage.wait_bound("first")
    await stage.create_pod("second", annotations={OPTION + "timelimit": "10"})
    second = await stage.wait_job("second")
    await stage.create_pod("third", annotations={OPTION + "timelimit": "10"})
    third = await stage.wait_job("third")
    await wait_message(
        stage, "second", f"job {second.job_id} is PENDING", "waiting for nodes to become free", "Position 1 among"
    )
    await wait_message(stage, "third", f"job {third.job_id} is PENDING", "Position 2 among")
    # slurmctld sets the expected start when its backfill runs, which a change of the queue triggers.
    await stage.create_pod("fourth", annotations={OPTION + "timelimit": "10"})
    await wait_message(stage, "third", "Position 2 among", "Expected to start ")
    await stage.report_phase("first", "Succeeded", 0)
    await stage.wait_bound("second")
    await wait_message(stage, "third", "Position 1 among")
    events = await stage.event_reasons("third")
    assert events & {"Resources", "Priority", "Pending"}


async def test_the_expected_start_is_the_one_that_the_command_shows(stage: BridgeStage) -> None:
    assert stage.bridge is not None
    await stage.create_pod("first", annotations={OPTION + "timelimit": "600"})
    await stage.wait_bound("first")
    await stage.create_pod("second", annotations={OPTION + "timelimit": "10"})
    job = await stage.wait_job("second")
    ranges = stage.bridge.start_ranges

    async def is_shown() -> bool:
        await ranges.refresh()
        shown = forecast(await read_snapshot(stage.slurm))[job.job_id]
        assert shown.latest is not None
        latest = datetime.fromtimestamp(shown.latest, UTC).strftime("%Y-%m-%dT%H:%M:00Z")
        condition = find_condition((await stage.get_pod("second")).status.conditions, names.SCHEDULED)
        assert condition is not None
        assert f"{latest} ({shown.source.value})." in condition.message, (condition.message, shown)
        return True

    await eventually(is_shown, "the forecast of the command in the condition")


async def test_a_waiting_pod_shows_what_blocks_its_job(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.create_pod("first")
    first = await stage.wait_job("first")
    await stage.create_pod("after", annotations={OPTION + "dependency": f"afterany:{first.job_id}"})
    await wait_message(stage, "after", "The job depends on another job: afterany:", str(first.job_id))
    await stage.create_pod("later", annotations={OPTION + "begin": "2099-01-01T00:00:00Z"})
    await wait_message(stage, "later", "begin time of the job is in the future", "2099-01-01T00:00:00Z")
    await stage.create_pod("greedy", annotations={OPTION + "licenses": "lic:4", OPTION + "exclusive": "false"})
    await stage.create_pod("held", annotations={OPTION + "hold": "true"})
    await wait_message(stage, "held", "The job is held", "scontrol release")
    # An administrator holds a waiting job.
    await stage.create_pod("second")
    second = await stage.wait_job("second")
    slurm.exec("scontrol", "hold", str(second.job_id))
    await wait_message(stage, "second", "An administrator holds the job")
    slurm.exec("scontrol", "release", str(second.job_id))
    await wait_message(stage, "second", "is PENDING", "Position ")


async def test_a_suspended_job_keeps_its_pod_and_the_pod_shows_it(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    await stage.report_phase("p", "Running")
    job = await stage.wait_job()
    slurm.exec("scontrol", "suspend", str(job.job_id))
    assert "scontrol resume" in await stage.wait_reason("p", "Suspended")
    assert not (await stage.get_pod()).metadata.deleting
    await stage.crash()
    await stage.start()  # a new bridge finds the job suspended
    await stage.wait_reason("p", "Suspended")
    slurm.exec("scontrol", "resume", str(job.job_id))
    await stage.wait_reason("p", "Allocated")
    await stage.report_phase("p", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED")


async def test_an_unbound_pod_of_a_suspended_job_starts_when_it_is_resumed(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.report_phase("first", "Running")
    await stage.create_pod("second")
    job = await stage.wait_job("second")
    await stage.slurm.cancel((await stage.wait_job("first")).job_id)
    await stage.wait_reason("second", "NodeClearing")
    slurm.exec("scontrol", "suspend", str(job.job_id))
    await stage.wait_reason("second", "Suspended")
    await stage.report_stopped("first")
    slurm.exec("scontrol", "resume", str(job.job_id))
    await stage.wait_bound("second")


async def test_a_pod_with_an_unsupported_field_shows_it_and_gets_no_job(stage: BridgeStage) -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    await stage.create_pod(affinity={"podAntiAffinity": rule})
    assert "podAntiAffinity is not supported" in await stage.wait_reason("p", "NotSupported")
    assert await stage.jobs() == []
    await stage.client.delete(OUR_PODS, Key(stage.namespace, "p"))
