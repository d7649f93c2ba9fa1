# SPDX-License-Identifier: Apache-2.0
"""Two bridges, as the command starts them, of which one leads."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.integration.bridge.bridge_stage import bridge_stage, cancel
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import eventually

from slinky.bridge import app
from slinky.kube import KubeClient
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.observe import Health
from slinky.slurm import SlurmClient as Slurm


async def test_another_replica_takes_over_and_submits_nothing_twice(
    kube: KubeClient, ctld: Slurm, slurm: LabSlurm, plane: BarePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    key = tmp_path / "jwt"
    key.write_bytes(slurm.jwt_key)
    async with bridge_stage(kube, ctld) as stage:
        lease = {"leader_elect": True, "lease_namespace": stage.namespace}
        settings = msgspec.structs.replace(stage.settings, slurm_rest_api=slurm.url, jwt_key_file=str(key), **lease)
        first = asyncio.create_task(app.main(settings))
        try:
            await stage.add_node()
            second = asyncio.create_task(app.main(settings))
            try:
                await stage.create_pod("a")
                await stage.wait_bound("a")
                await stage.create_pod("b")
                waiting = await stage.wait_job("b")
                await cancel(first)
                await stage.report_phase("a", "Succeeded", 0)
                await stage.wait_bound("b")
                assert (await stage.wait_job("b")).sluid == waiting.sluid
                assert len(await stage.jobs()) == 1
            finally:
                await cancel(second)
        finally:
            await cancel(first)


async def test_a_replica_without_the_lease_sends_nothing_to_slurm_and_is_ready(
    kube: KubeClient, ctld: Slurm, slurm: LabSlurm, plane: BarePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    key = tmp_path / "jwt"
    key.write_bytes(slurm.jwt_key)
    async with bridge_stage(kube, ctld) as stage, SlurmrestdProxy(slurm.url) as proxy:
        lease = {"leader_elect": True, "lease_namespace": stage.namespace}
        settings = msgspec.structs.replace(stage.settings, slurm_rest_api=slurm.url, jwt_key_file=str(key), **lease)
        first = asyncio.create_task(app.main(settings))
        try:
            await stage.add_node()
            health = Health()
            second = asyncio.create_task(app.main(msgspec.structs.replace(settings, slurm_rest_api=proxy.url), health))
            try:
                await eventually(lambda: "slurm" in health._readiness and not health.readiness(), "a ready standby")
                await stage.create_pod("a")
                await stage.wait_bound("a")
                assert proxy.requests == []
                await cancel(first)
                await stage.create_pod("b")
                await stage.wait_job("b")
                assert proxy.requests
            finally:
                await cancel(second)
        finally:
            await cancel(first)
