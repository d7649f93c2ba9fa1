# SPDX-License-Identifier: Apache-2.0
"""The outcome of pods reaches accounting, also if the bridge or slurmdbd is away when the pods end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.lifecycle.release import outcome_recorder
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import Job


@contextlib.asynccontextmanager
async def accounting_down(slurm: LabSlurm) -> AsyncIterator[None]:
    """While slurmdbd is down."""
    await asyncio.to_thread(slurm.stop, "slurmdbd")
    try:
        yield
    finally:
        await asyncio.to_thread(slurm.start, "slurmdbd")


async def is_recorded(stage: BridgeStage, job: Job) -> bool:
    record = await stage.slurm.accounting.job(job.job_id)
    assert record.sluid == job.sluid
    return "Failed, exit code 3" in record.comment.job and record.derived_exit_code.code == 3


async def test_a_restarted_bridge_records_the_outcome_of_pods_that_ended_before(
    stage: BridgeStage, slurm: LabSlurm
) -> None:
    await stage.run_pod()
    job = await stage.wait_job()
    async with accounting_down(slurm):
        await stage.report_phase("p", "Failed", 3)
        await stage.wait_state(job, "CANCELLED")
        await stage.settle()
        assert names.FINALIZER in (await stage.get_pod()).metadata.finalizers
        await stage.crash()
    await stage.start()
    await eventually(lambda: is_recorded(stage, job), "the outcome in accounting")
    await stage.wait_released()


async def test_pods_do_not_wait_for_accounting_for_ever(
    stage: BridgeStage, slurm: LabSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_recorder, "SETTLE_SECONDS", 1.0)
    await stage.run_pod()
    job = await stage.wait_job()
    async with accounting_down(slurm):
        await stage.report_phase("p", "Failed", 3)
        await stage.wait_released()
    await eventually(lambda: is_recorded(stage, job), "the outcome in accounting")


async def test_one_pod_of_a_gang_waits_for_accounting_unless_it_is_deleted(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.run_gang_of_two()
    async with accounting_down(slurm):
        await stage.report_phase("a", "Succeeded", 0)
        await stage.report_phase("b", "Failed", 3)
        await stage.wait_released("a")
        assert names.FINALIZER in (await stage.get_pod("b")).metadata.finalizers
        await stage.delete_pod("b", grace=0)
        await stage.wait_gone("b")
