# SPDX-License-Identifier: Apache-2.0
"""A NodeSet of simulated workers with devices whose number follows the queue of a real slurmctld."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.integration.operator.stage import SlurmStage, stage_of
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import Key
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm

#: gres.conf of the lab has devices for hosts with such names.
PREFIX = "k90"
SETTINGS = "CPUs=2 RealMemory=1000 Features=ext Gres=gpu:h100:8"
POLICY = {"maxReplicas": 3, "scaleIn": {"idleFor": "1s"}}
NAME = "gpu"


class ElasticStage(SlurmStage):
    """A namespace with one cluster and its NodeSet `gpu`; `pod_spec` has further fields of its pods."""

    pod_spec: Mapping[str, Any] = MappingProxyType({})

    async def apply_policy(self, image: str = "v1", **policy: Any) -> None:
        """Apply the NodeSet without a number of workers, as the chart does."""
        spec = {
            "controllerRef": {"name": "slurm"},
            "slurmd": {"image": image},
            "template": {"spec": {"hostname": self.prefix, **self.pod_spec}},
            "extraConf": SETTINGS,
            "autoscaling": {**POLICY, **policy},
        }
        await self.apply(NODE_SETS, NAME, spec=spec)

    async def apply_empty(self, **policy: Any) -> None:
        """Apply the NodeSet, and wait until its first worker, which is idle, is gone."""
        await self.apply_policy(**policy)

        async def is_empty() -> bool:
            return (await self.node_set()).spec.replicas == 0 and not await self.pods()

        await eventually(is_empty, "a NodeSet without workers")

    async def node_set(self) -> NodeSet:
        return await self.client.get(NODE_SETS, Key(self.namespace, NAME))

    async def submit(self, **fields: object) -> int:
        return (await self.slurm.submit(external_job(**fields))).job_id

    async def wait_reason(self, *reasons: str) -> NodeSet:
        """Wait for a decision with one of these reasons."""

        async def decided() -> NodeSet | None:
            live = await self.node_set()
            return live if live.status.autoscaling and live.status.autoscaling.reason in reasons else None

        return await eventually(decided, f"a decision with the reason {' or '.join(reasons)}")

    async def wait_pods(self, count: int) -> None:
        async def exist() -> bool:
            return len(await self.pods()) == count

        await eventually(exist, f"{count} workers")

    async def wait_running(self, job: int) -> None:
        async def runs() -> bool:
            return (await self.slurm.job(job)).state.running

        await eventually(runs, f"start of job {job}")

    async def retry(self) -> None:
        """Ask for a new attempt at once, as the documentation says."""
        annotation = {"metadata": {"annotations": {metadata.RETRY_GROWTH: "now"}}}
        await self.client.patch(NODE_SETS, Key(self.namespace, NAME), annotation)


@asynccontextmanager
async def elastic_stage(plane: BarePlane, slurm: LabSlurm, folder: Path) -> AsyncIterator[ElasticStage]:
    """A cluster without workers; its jobs are cancelled in the end."""
    async with stage_of(ElasticStage, plane, slurm, folder) as stage:
        stage.prefix = PREFIX
        # Slurm starts gangs only on nodes of its topology.
        stage.shape |= {"Gres": "gpu:h100:8", "Topology": "default:leaf2"}
        yield stage
        slurm.exec("scancel", "--user=slurm")
