# SPDX-License-Identifier: Apache-2.0
"""Devices by extended resources on an API server that does not support them, as Kubernetes before 1.36."""

from contextlib import suppress

from tests.integration.bridge.bridge_stage import SHARED
from tests.integration.bridge.device_stage import running_gpu_stage

from slinky.kube import NAMESPACES, AlreadyExists, Key, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.slurm import SlurmClient as Slurm


async def test_no_pod_is_bound_if_the_server_does_not_keep_the_devices_of_extended_resources(ctld: Slurm) -> None:
    """Kubernetes before 1.36 drops the field of the pod without an error, unless a feature gate is on."""
    with BarePlane.running(flags=["--feature-gates=DRAExtendedResource=false"]) as plane:
        async with connect(plane.kubeconfig, manager="slurm-bridge") as kube:
            with suppress(AlreadyExists):
                await kube.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
            async with running_gpu_stage(kube, ctld) as stage:
                await stage.create_pod("p", **stage.gpus(1), annotations=SHARED)
                assert "DRAExtendedResource" in await stage.wait_reason("p", "NodeUnsuitable")
                assert not (await stage.get_pod("p")).spec.node_name
