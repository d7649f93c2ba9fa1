# SPDX-License-Identifier: Apache-2.0
"""A JWT key is replaced on a real API server; the test plays slurmctld, which knows what it was started with."""

import json
from base64 import b64decode
from typing import Any, NamedTuple

import jwt
import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import KEYS, controller, secrets

from slinky.api.names import metadata
from slinky.api.token import TOKENS
from slinky.kube import CONFIG_MAPS, PODS, SECRETS, STATEFUL_SETS, Key
from slinky.operator.keys.jwt_keyring import Signer

pytestmark = pytest.mark.plane

LABELS = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}
OLD, NEW = b"j" * 32, b"n" * 32


class Slurmctld(NamedTuple):
    """What it has read."""

    key: bytes
    published: list[dict[str, Any]]
    started_for: dict[str, str]

    def accepts(self, token: bytes) -> bool:
        kid = jwt.get_unverified_header(token).get("kid")
        found = [one for one in self.published if one["kid"] == kid]
        if not found:
            return Signer(self.key).signed(token)
        return bool(jwt.decode(token, jwt.PyJWK(found[0]).key, algorithms=["RS256"]))


async def started(desk: Desk, before: Slurmctld | None) -> Slurmctld:
    """The daemon, started anew if its StatefulSet asks for that."""
    workload = await desk.get(STATEFUL_SETS, "slurm-controller")
    wanted = workload.spec["template"]["metadata"]["annotations"]
    if before is not None and wanted == before.started_for:
        return before
    ring, config = await desk.get(SECRETS, "jwt-key-jwt-keyring"), await desk.get(CONFIG_MAPS, "slurm-config")
    pod = Key(desk.namespace, "slurm-controller-0")
    spec = {"containers": [{"name": "slurmctld", "image": "x"}]}
    meta = {"labels": LABELS, "annotations": wanted}
    await desk.client.apply(PODS, PODS.manifest(pod, metadata=meta, spec=spec), manager="player")
    status: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await desk.client.patch(PODS, pod, {"status": status}, subresource="status")
    counts = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}
    status = {**counts, "observedGeneration": workload.metadata.generation}
    await desk.client.patch(STATEFUL_SETS, workload.key, {"status": status}, subresource="status")
    document = json.loads(config.data.get("jwks.json", '{"keys": []}'))
    assert bool(document["keys"]) == ("jwks=/etc/slurm/jwks.json" in config.data["slurm.conf"])
    return Slurmctld(b64decode(ring.data["jwt.key"]), document["keys"], wanted)


async def test_every_token_is_accepted_whatever_slurmctld_has_read(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await desk.apply(TOKENS, "t", spec={"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice", "lifetime": "1h"})
    await desk.get(SECRETS, "t-jwt-alice")
    daemon, algorithms = await started(desk, None), ["HS256"]
    await desk.rest()
    daemon = await started(desk, daemon)
    assert daemon.key == OLD
    await desk.secret("jwt-key", **{"jwt.key": NEW.decode()})

    async def landed() -> bool:
        nonlocal daemon
        token = b64decode((await desk.get(SECRETS, "t-jwt-alice")).data["SLURM_JWT"])
        assert daemon.accepts(token), algorithms
        algorithm = jwt.get_unverified_header(token)["alg"]
        if algorithm != algorithms[-1]:
            algorithms.append(algorithm)
        daemon = await started(desk, daemon)
        return daemon.key == NEW and Signer(NEW).signed(token) and not daemon.published

    await desk.until(landed, "the end of the rotation", 120)
    assert algorithms == ["HS256", "RS256", "HS256"], "over the bridge and back"
    assert sorted((await desk.get(SECRETS, "jwt-key-jwt-keyring")).data) == ["jwt.key"], "no key is left behind"
