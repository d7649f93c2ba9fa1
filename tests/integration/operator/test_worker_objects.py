# SPDX-License-Identifier: Apache-2.0
"""What all workers of a cluster share, and what blocks them, on a real API server."""

import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import REF, controller, secrets

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, SERVICES, Key
from slinky.kube.views import DISRUPTION_BUDGETS

pytestmark = pytest.mark.plane


async def test_what_workers_share_is_kept_right_whoever_made_it(desk: Desk) -> None:
    """Left behind by another operator: without labels, without our owner, of another shape."""
    old = {"clusterIP": "None", "selector": {metadata.APP_NAME: "slurmd"}, "ports": [{"name": "old", "port": 1}]}
    await desk.apply(SERVICES, "slurm-workers-slurm", spec=old)
    await desk.apply(DISRUPTION_BUDGETS, "slurm-workers-pdb-slurm", spec={"maxUnavailable": 5})
    await secrets(desk)
    await controller(desk)
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})

    async def right() -> bool:
        service, budget = (
            await desk.get(SERVICES, "slurm-workers-slurm"),
            await desk.get(DISRUPTION_BUDGETS, "slurm-workers-pdb-slurm"),
        )
        ports = {port["port"] for port in service.spec["ports"]}
        return (
            6818 in ports
            and service.spec["selector"] == {metadata.APP_NAME: "slurmd", metadata.CLUSTER: "slurm"}
            and service.spec["publishNotReadyAddresses"] is True
            and budget.spec.get("maxUnavailable") is None
            and budget.spec["minAvailable"] == 2**31 - 1
            and budget.spec["selector"]["matchLabels"][metadata.POD_PROTECT] == "true"
        )

    await desk.until(right, "the right Service and budget")
    await desk.client.patch(
        DISRUPTION_BUDGETS, Key(desk.namespace, "slurm-workers-pdb-slurm"), {"spec": {"minAvailable": 0}}
    )
    await desk.until(right, "the budget put right")


async def test_a_worker_that_cannot_be_built_is_said_and_not_half_made(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    ssh = {"enabled": True, "sssdConfRef": {"name": "not-there", "key": "sssd.conf"}}
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1, "ssh": ssh})

    async def said() -> bool:
        return await desk.condition(NODE_SETS, "gpu", "Degraded") == ("True", "ReferenceMissing")

    await desk.until(said, "the condition")
    assert await desk.names(PODS) == []
    await desk.secret("not-there", **{"sssd.conf": "[sssd]"})
    pod = await desk.get(PODS, "gpu-0")
    first = pod.metadata.labels[metadata.REVISION]
    # What such a worker has read is part of what it is: another sssd.conf makes another worker.
    await desk.secret("not-there", **{"sssd.conf": "[sssd]\ndebug_level = 1"})

    async def rolled() -> bool:
        found = await desk.find(PODS, "gpu-0")
        return found is not None and found.metadata.labels[metadata.REVISION] != first

    await desk.until(rolled, "a worker with the new file", 20)
