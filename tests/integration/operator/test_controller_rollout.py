# SPDX-License-Identifier: Apache-2.0
"""Several slurmctld are replaced in turn, on a real API server; the test plays the StatefulSet's controller."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import controller, secrets

from slinky.api.names import metadata
from slinky.kube import PODS, STATEFUL_SETS, Key
from slinky.operator.controller.rollout import REVISION

pytestmark = pytest.mark.plane

LABELS = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}


async def made(desk: Desk, ordinal: int, revision: str) -> None:
    spec = {"containers": [{"name": "slurmctld", "image": "x"}]}
    await desk.apply(PODS, f"slurm-controller-{ordinal}", labels={**LABELS, REVISION: revision}, spec=spec)


async def started(desk: Desk, ordinal: int, *, ready: bool) -> None:
    running: dict[str, Any] = {"name": "slurmctld", "image": "x", "imageID": "", "ready": ready, "restartCount": 0}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{**running, "started": True}],
    }
    key = Key(desk.namespace, f"slurm-controller-{ordinal}")
    await desk.client.patch(PODS, key, {"status": status}, subresource="status")


async def gone(desk: Desk, ordinal: int) -> None:
    async def is_gone() -> bool:
        return f"slurm-controller-{ordinal}" not in await desk.names(PODS)

    await desk.until(is_gone, f"the end of controller {ordinal}")


async def test_the_standby_goes_first_and_the_one_in_charge_when_its_successor_has_started(desk: Desk) -> None:
    await secrets(desk)
    ha = {"enabled": True, "backups": 1}
    await controller(desk, ha=ha, persistence={"enabled": True, "existingClaim": "shared"})
    found = await desk.get(STATEFUL_SETS, "slurm-controller")
    assert found.spec["updateStrategy"] == {"type": "OnDelete"}
    for ordinal in (0, 1):
        await made(desk, ordinal, "old")
        await started(desk, ordinal, ready=ordinal == 0)
    status = {"replicas": 2, "updateRevision": "new", "observedGeneration": found.metadata.generation}
    await desk.client.patch(STATEFUL_SETS, found.key, {"status": status}, subresource="status")
    await gone(desk, 1)
    await made(desk, 1, "new")
    await desk.rest()
    assert await desk.names(PODS) == ["slurm-controller-0", "slurm-controller-1"], "the new standby has not started"
    await started(desk, 1, ready=False)
    await gone(desk, 0)
    assert await desk.names(PODS) == ["slurm-controller-1"]
