# SPDX-License-Identifier: Apache-2.0
"""A JWT key is replaced on a real API server; the test simulates slurmctld, which uses the files of its last start."""

import json
from base64 import b64decode
from typing import Any, NamedTuple

import jwt
import pytest
from tests.integration.operator.stage import KEYS, OperatorStage
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.token import TOKENS
from slinky.kube import CONFIG_MAPS, PODS, SECRETS, STATEFUL_SETS, Key
from slinky.operator.keyrings.jwt_keyring import Signer

pytestmark = pytest.mark.plane

LABELS = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}
OLD, NEW = b"j" * 32, b"n" * 32


class Slurmctld(NamedTuple):
    """A simulated slurmctld with the files that it read at its start."""

    key: bytes
    published: list[dict[str, Any]]
    started_for: dict[str, str]

    def accepts(self, token: bytes) -> bool:
        kid = jwt.get_unverified_header(token).get("kid")
        keys = [key for key in self.published if key["kid"] == kid]
        if not keys:
            return Signer(self.key).signed(token)
        return bool(jwt.decode(token, jwt.PyJWK(keys[0]).key, algorithms=["RS256"]))


async def restart_if_changed(stage: OperatorStage, before: Slurmctld | None) -> Slurmctld:
    """The daemon, started again if the template of its StatefulSet has changed."""
    workload = await stage.get(STATEFUL_SETS, "slurm-controller")
    annotations = workload.spec["template"]["metadata"]["annotations"]
    if before is not None and annotations == before.started_for:
        return before
    ring, config = await stage.get(SECRETS, "jwt-key-jwt-keyring"), await stage.get(CONFIG_MAPS, "slurm-config")
    pod = Key(stage.namespace, "slurm-controller-0")
    spec = {"containers": [{"name": "slurmctld", "image": "x"}]}
    meta = {"labels": LABELS, "annotations": annotations}
    await stage.client.apply(PODS, PODS.manifest(pod, metadata=meta, spec=spec), manager="simulation")
    status: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await stage.client.patch(PODS, pod, {"status": status}, subresource="status")
    counts = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}
    status = {**counts, "observedGeneration": workload.metadata.generation}
    await stage.client.patch(STATEFUL_SETS, workload.key, {"status": status}, subresource="status")
    document = json.loads(config.data.get("jwks.json", '{"keys": []}'))
    assert bool(document["keys"]) == ("jwks=/etc/slurm/jwks.json" in config.data["slurm.conf"])
    return Slurmctld(b64decode(ring.data["jwt.key"]), document["keys"], annotations)


async def test_every_token_is_accepted_at_every_stage_of_the_rotation(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(TOKENS, "t", spec={"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice", "lifetime": "1h"})
    await stage.get(SECRETS, "t-jwt-alice")
    daemon, algorithms = await restart_if_changed(stage, None), ["HS256"]
    await stage.quiescent()
    daemon = await restart_if_changed(stage, daemon)
    assert daemon.key == OLD
    await stage.secret("jwt-key", **{"jwt.key": NEW.decode()})

    async def is_rotated() -> bool:
        nonlocal daemon
        token = b64decode((await stage.get(SECRETS, "t-jwt-alice")).data["SLURM_JWT"])
        assert daemon.accepts(token), algorithms
        algorithm = jwt.get_unverified_header(token)["alg"]
        if algorithm != algorithms[-1]:
            algorithms.append(algorithm)
        daemon = await restart_if_changed(stage, daemon)
        return daemon.key == NEW and Signer(NEW).signed(token) and not daemon.published

    await eventually(is_rotated, "the end of the rotation")
    assert algorithms == ["HS256", "RS256", "HS256"], "over the bridge and back"
    assert sorted((await stage.get(SECRETS, "jwt-key-jwt-keyring")).data) == ["jwt.key"], "no key is left behind"
