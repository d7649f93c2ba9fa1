# SPDX-License-Identifier: Apache-2.0
"""All six kinds speak of themselves in the same way, on a real API server."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import KEYS, REF

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube import Resource

pytestmark = pytest.mark.plane

FIVE = {"Ready", "Progressing", "Degraded", "SlurmReachable", "ConfigSynced"}
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


async def test_every_kind_says_the_same_five_things_before_and_after_it_can_work(desk: Desk) -> None:
    async def said(degraded: str) -> bool:
        """All kinds speak of their newest generation, in sentences, and are degraded or not."""
        for resource, name, _ in SPECS:
            found = await desk.get(resource, name)
            conditions = {one["type"]: one for one in (found.status or {}).get("conditions", ())}
            if not conditions.keys() >= FIVE or conditions["Degraded"]["status"] != degraded:
                return False
            generations = {one["observedGeneration"] for one in conditions.values()}
            assert all(len(one["message"]) > 8 and one["reason"] for one in conditions.values()), (name, conditions)
            if generations != {found.metadata.generation} or found.status["observedGeneration"] not in generations:
                return False
        return True

    # Slurm can be had from outside, so a RestApi alone is not blocked by a missing Controller; here it waits for one.
    for resource, name, spec in SPECS[1:2] + SPECS[3:]:
        await desk.apply(resource, name, spec=spec)
    await desk.apply(CONTROLLERS, "slurm", spec=KEYS)

    async def blocked() -> bool:
        for resource, name in ((CONTROLLERS, "slurm"), (ACCOUNTINGS, "slurm"), (TOKENS, "t"), (LOGIN_SETS, "login")):
            found = await desk.get(resource, name)
            conditions = {one["type"]: one for one in (found.status or {}).get("conditions", ())}
            if not conditions.keys() >= FIVE or conditions["Degraded"]["reason"] != "ReferenceMissing":
                return False
            assert conditions["ConfigSynced"]["status"] == "False"
        return True

    await desk.until(blocked, "five conditions that say what is missing", 30)
    await desk.secret("slurm-key", **{"slurm.key": "k" * 64})
    await desk.secret("jwt-key", **{"jwt.key": "j" * 32})
    await desk.secret("db", password="p")
    await desk.secret("sssd", **{"sssd.conf": "[sssd]"})
    await desk.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await desk.until(lambda: said("False"), "five conditions of every kind", 30)
