# SPDX-License-Identifier: Apache-2.0
"""The objects that all workers of a cluster share, and references that block workers, on a real API server."""

import pytest
from tests.integration.operator.stage import REF, OperatorStage
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, SERVICES, Key
from slinky.kube.views import DISRUPTION_BUDGETS

pytestmark = pytest.mark.plane


async def test_what_workers_share_is_repaired_whoever_created_it(stage: OperatorStage) -> None:
    """Another operator left them: without labels, without our owner, with other fields."""
    old = {"clusterIP": "None", "selector": {metadata.APP_NAME: "slurmd"}, "ports": [{"name": "old", "port": 1}]}
    await stage.apply(SERVICES, "slurm-workers-slurm", spec=old)
    await stage.apply(DISRUPTION_BUDGETS, "slurm-workers-pdb-slurm", spec={"maxUnavailable": 5})
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})

    async def is_repaired() -> bool:
        service, budget = (
            await stage.get(SERVICES, "slurm-workers-slurm"),
            await stage.get(DISRUPTION_BUDGETS, "slurm-workers-pdb-slurm"),
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

    await eventually(is_repaired, "the Service and the budget")
    await stage.client.patch(
        DISRUPTION_BUDGETS, Key(stage.namespace, "slurm-workers-pdb-slurm"), {"spec": {"minAvailable": 0}}
    )
    await eventually(is_repaired, "the repaired budget")


async def test_a_worker_that_cannot_be_built_is_reported_and_not_created(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    ssh = {"enabled": True, "sssdConfRef": {"name": "not-there", "key": "sssd.conf"}}
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1, "ssh": ssh})

    await stage.wait_condition(NODE_SETS, "gpu", "Degraded", "True", "ReferenceMissing")
    assert await stage.names(PODS) == []
    await stage.secret("not-there", **{"sssd.conf": "[sssd]"})
    pod = await stage.get(PODS, "gpu-0")
    first = pod.metadata.labels[metadata.REVISION]
    # sssd.conf is part of the revision of such a worker: another file replaces the worker.
    await stage.secret("not-there", **{"sssd.conf": "[sssd]\ndebug_level = 1"})

    async def is_replaced() -> bool:
        pod = await stage.find(PODS, "gpu-0")
        return pod is not None and pod.metadata.labels[metadata.REVISION] != first

    await eventually(is_replaced, "a worker with the new file")
