# SPDX-License-Identifier: Apache-2.0
"""All six kinds report the same five conditions, on a real API server."""

from typing import Any

import pytest
from tests.integration.operator.stage import KEYS, REF, OperatorStage
from tests.support.waiting import eventually

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube import Resource

pytestmark = pytest.mark.plane

CONDITIONS = {"Ready", "Progressing", "Degraded", "SlurmReachable", "ConfigSynced"}
LOCKED = {"slurmKeyRef": KEYS["slurmKeyRef"], "jwtKeyRef": KEYS["jwtKeyRef"]}
SPECS: tuple[tuple[Resource[Any], str, dict[str, Any]], ...] = (
    (CONTROLLERS, "slurm", KEYS),
    (
        ACCOUNTINGS,
        "slurm",
        {**LOCKED, "storageConfig": {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}}},
    ),
    (REST_APIS, "slurm", {"controllerRef": REF}),
    (NODE_SETS, "gpu", {"controllerRef": REF, "replicas": 1}),
    (LOGIN_SETS, "login", {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}),
    (TOKENS, "t", {"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice", "lifetime": "1h"}),
)


async def test_every_kind_reports_the_same_five_conditions_before_and_after_it_can_work(stage: OperatorStage) -> None:
    async def is_reported(degraded: str) -> bool:
        """Whether all kinds report their newest generation, in sentences, and the given status of Degraded."""
        for resource, name, _ in SPECS:
            item = await stage.get(resource, name)
            conditions = {condition["type"]: condition for condition in (item.status or {}).get("conditions", ())}
            if not conditions.keys() >= CONDITIONS or conditions["Degraded"]["status"] != degraded:
                return False
            generations = {condition["observedGeneration"] for condition in conditions.values()}
            for condition in conditions.values():
                assert len(condition["message"]) > 8, (name, conditions)
                assert condition["reason"], (name, conditions)
            if generations != {item.metadata.generation} or item.status["observedGeneration"] not in generations:
                return False
        return True

    # A RestApi may refer to a Slurm outside of Kubernetes, so a missing Controller does not block it.
    for resource, name, spec in SPECS[1:2] + SPECS[3:]:
        await stage.apply(resource, name, spec=spec)
    await stage.apply(CONTROLLERS, "slurm", spec=KEYS)

    async def is_blocked() -> bool:
        for resource, name in ((CONTROLLERS, "slurm"), (ACCOUNTINGS, "slurm"), (TOKENS, "t"), (LOGIN_SETS, "login")):
            item = await stage.get(resource, name)
            conditions = {condition["type"]: condition for condition in (item.status or {}).get("conditions", ())}
            if not conditions.keys() >= CONDITIONS or conditions["Degraded"]["reason"] != "ReferenceMissing":
                return False
            assert conditions["ConfigSynced"]["status"] == "False"
        return True

    await eventually(is_blocked, "five conditions that name the missing reference")
    await stage.secret("slurm-key", **{"slurm.key": "k" * 64})
    await stage.secret("jwt-key", **{"jwt.key": "j" * 32})
    await stage.secret("db", password="p")
    await stage.secret("sssd", **{"sssd.conf": "[sssd]"})
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await eventually(lambda: is_reported("False"), "five conditions of every kind")
