# SPDX-License-Identifier: Apache-2.0
"""The driver of key rotations: read, step, write if changed, notify, look again."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.operator.samples import controller

from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.api.names import metadata
from slinky.kube.errors import Blocked
from slinky.kube.types import Key, ObjectMeta
from slinky.kube.views import Secret
from slinky.operator.keyrings.jwt_keyring import JWT_KEYRING, JwtKeyRing, JwtKeyStage, JwtKeyStep
from slinky.operator.keys.rotation import RECHECK_SECONDS, KeyRotation
from slinky.operator.keys.users import KeyUser

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = Key("ns", "slurm-auth-jwt")
RING = Key("ns", "slurm-auth-jwt-jwt-keyring")


@dataclass
class FakeCluster:
    """The Secrets of a namespace, with the writes and events of the driver."""

    secrets: dict[Key, Secret] = field(default_factory=dict)
    writes: int = 0
    events: list[str] = field(default_factory=list)

    async def secret_value(self, namespace: str, ref: KeyRef) -> bytes:
        return self.secrets[Key(namespace, ref.name)].data[ref.key]

    async def secret(self, namespace: str, name: str) -> Secret:
        return self.secrets[Key(namespace, name)]

    async def apply(self, resource: object, manifest: Any, *, manager: str) -> Secret:
        self.writes += 1
        meta = msgspec.convert({**manifest["metadata"]}, ObjectMeta)
        return Secret(meta, {file: b64decode(content) for file, content in manifest["data"].items()})

    def remember(self, secret: Secret) -> None:
        self.secrets[secret.key] = secret

    def record(self, reference: object, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    def put_key(self, key: bytes) -> None:
        self.secrets[SECRET] = Secret(ObjectMeta(name=SECRET.name, namespace="ns"), {"jwt.key": key})


class Rotation(KeyRotation[JwtKeyRing]):
    """A rotation whose next step is given."""

    policy = JWT_KEYRING
    controller_name = "test"

    def __init__(self, cluster: FakeCluster) -> None:
        user = controller()
        users: Any = SimpleNamespace(by=lambda index, value: [user] if value == str(SECRET) else [])
        none: Any = SimpleNamespace(by=lambda index, value: [])
        recorder = SimpleNamespace(record=cluster.record)
        self.context: Any = SimpleNamespace(
            controllers=users, accountings=none, referenced_data=cluster, client=cluster, recorder=recorder
        )
        self.step: JwtKeyStep | None = None

    @staticmethod
    def key_ref(spec: DaemonKeyRefs) -> KeyRef | None:
        return spec.jwt_key

    async def next_step(
        self, ref: KeyRef, secret: Secret, ring: JwtKeyRing, wanted: bytes, users: Sequence[KeyUser]
    ) -> JwtKeyStep:
        assert self.step is not None, "asked for a step although the key is unchanged"
        return self.step


async def settled() -> tuple[FakeCluster, Rotation]:
    cluster = FakeCluster()
    cluster.put_key(OLD)
    rotation = Rotation(cluster)
    assert await rotation.reconcile(SECRET) is None
    return cluster, rotation


async def test_a_key_gets_a_ring_that_is_not_written_again() -> None:
    cluster, rotation = await settled()
    ring = cluster.secrets[RING]
    assert JWT_KEYRING.read(ring) == JwtKeyRing(OLD)
    assert [owner.uid for owner in ring.metadata.owner_references] == ["uid-slurm"]
    assert await rotation.reconcile(SECRET) is None
    assert (cluster.writes, cluster.events) == (1, [])


async def test_a_new_stage_is_written_and_reported_once_and_looked_at_again() -> None:
    cluster, rotation = await settled()
    cluster.put_key(NEW)
    rotation.step = JwtKeyStep(JwtKeyRing(OLD, NEW, stage=JwtKeyStage.OPENING, since=1000.0), "slurmctld")
    for _ in range(2):
        again = await rotation.reconcile(SECRET)
        assert again is not None
        assert again.seconds == RECHECK_SECONDS
    assert (cluster.writes, len(cluster.events)) == (2, 1)
    assert "Rotation of the JWT key: step 1 of 4" in cluster.events[0]
    description = cluster.secrets[RING].metadata.annotations[metadata.KEY_ROTATION]
    assert description.endswith("waiting for slurmctld")


async def test_the_end_of_a_rotation_is_reported() -> None:
    cluster, rotation = await settled()
    cluster.put_key(NEW)
    rotation.step = JwtKeyStep(JwtKeyRing(OLD, NEW, stage=JwtKeyStage.LANDING, since=1000.0))
    await rotation.reconcile(SECRET)
    rotation.step = JwtKeyStep(JwtKeyRing(NEW, since=2000.0))
    assert await rotation.reconcile(SECRET) is None
    assert cluster.events[-1].endswith(JWT_KEYRING.completed)
    assert JWT_KEYRING.read(cluster.secrets[RING]).current == NEW


async def test_a_secret_that_has_the_name_of_a_ring_is_not_overwritten() -> None:
    cluster = FakeCluster()
    cluster.put_key(OLD)
    cluster.secrets[RING] = Secret(ObjectMeta(name=RING.name, namespace="ns"), {})
    with pytest.raises(Blocked, match="NameTaken"):
        await Rotation(cluster).reconcile(SECRET)
    assert cluster.writes == 0
