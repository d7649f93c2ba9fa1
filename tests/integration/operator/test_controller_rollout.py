# SPDX-License-Identifier: Apache-2.0
"""The pods of several slurmctld are replaced in turn; the test does the work of the StatefulSet controller."""

from typing import Any

import pytest
from tests.integration.operator.stage import OperatorStage
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.kube import PODS, STATEFUL_SETS, Key
from slinky.operator.controller.rollout import REVISION

pytestmark = pytest.mark.plane

LABELS = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}


async def create_pod(stage: OperatorStage, ordinal: int, revision: str) -> None:
    spec = {"containers": [{"name": "slurmctld", "image": "x"}]}
    await stage.apply(PODS, f"slurm-controller-{ordinal}", labels={**LABELS, REVISION: revision}, spec=spec)


async def start_pod(stage: OperatorStage, ordinal: int, *, ready: bool) -> None:
    running: dict[str, Any] = {"name": "slurmctld", "image": "x", "imageID": "", "ready": ready, "restartCount": 0}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{**running, "started": True}],
    }
    key = Key(stage.namespace, f"slurm-controller-{ordinal}")
    await stage.client.patch(PODS, key, {"status": status}, subresource="status")


async def wait_deleted(stage: OperatorStage, ordinal: int) -> None:
    async def is_deleted() -> bool:
        return f"slurm-controller-{ordinal}" not in await stage.names(PODS)

    await eventually(is_deleted, f"deletion of controller {ordinal}")


async def test_the_standby_is_replaced_first_and_the_primary_when_the_new_standby_has_started(
    stage: OperatorStage,
) -> None:
    await stage.create_keys()
    ha = {"enabled": True, "backups": 1}
    await stage.apply_controller(ha=ha, persistence={"enabled": True, "existingClaim": "shared"})
    stateful_set = await stage.get(STATEFUL_SETS, "slurm-controller")
    assert stateful_set.spec["updateStrategy"] == {"type": "OnDelete"}
    for ordinal in (0, 1):
        await create_pod(stage, ordinal, "old")
        await start_pod(stage, ordinal, ready=ordinal == 0)
    status = {"replicas": 2, "updateRevision": "new", "observedGeneration": stateful_set.metadata.generation}
    await stage.client.patch(STATEFUL_SETS, stateful_set.key, {"status": status}, subresource="status")
    await wait_deleted(stage, 1)
    await create_pod(stage, 1, "new")
    await stage.quiescent()
    assert await stage.names(PODS) == ["slurm-controller-0", "slurm-controller-1"], "the new standby has not started"
    await start_pod(stage, 1, ready=False)
    await wait_deleted(stage, 0)
    assert await stage.names(PODS) == ["slurm-controller-1"]
