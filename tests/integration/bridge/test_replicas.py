# SPDX-License-Identifier: Apache-2.0
"""The whole process, as the command starts it, twice."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest
from tests.integration.bridge.scene import scene

from slinky.bridge import app
from slinky.kube import KubeClient
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import SlurmClient as Slurm


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
        await task


async def test_another_replica_takes_over_and_submits_nothing_twice(
    kube: KubeClient, ctld: Slurm, slurm: Beside, plane: PlainPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    key = tmp_path / "jwt"
    key.write_bytes(slurm.jwt_key)
    async with scene(kube, ctld) as stage:
        lease = {"leader_elect": True, "lease_namespace": stage.namespace}
        settings = msgspec.structs.replace(stage.settings, slurm_rest_api=slurm.url, jwt_key_file=str(key), **lease)
        first = asyncio.create_task(app.main(settings))
        try:
            await stage.node()
            second = asyncio.create_task(app.main(settings))
            try:
                await stage.pod("a")
                await stage.bound("a")
                await stage.pod("b")
                waiting = await stage.job_of("b")
                await ended(first)
                await stage.phase("a", "Succeeded", 0)
                await stage.bound("b", 60)
                assert (await stage.job_of("b")).sluid == waiting.sluid
                assert len(await stage.jobs()) == 1
            finally:
                await ended(second)
        finally:
            await ended(first)
