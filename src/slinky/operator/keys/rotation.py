# SPDX-License-Identifier: Apache-2.0
"""Drives the rotation of keys: reads the key ring, computes the next step, writes the ring, reports, looks again.

The driver is the same for slurm keys and for JWT keys. A subclass names its keyring policy and computes the next step
from how far daemons, workers and Tokens have followed. The key ring stores the progress, so that another operator
process continues a rotation.
"""

from collections.abc import Sequence
from typing import Generic

from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.api.names import metadata
from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, classify_error
from slinky.operator.keyrings.keyring import SETTLED, KeyringPolicy, RingT, RotationStep
from slinky.operator.keys.users import (
    KeyUser,
    affected_secrets,
    has_other_owners,
    key_secret,
    kind_of,
    owner_reference,
    users_by_key,
)
from slinky.operator.metrics import WRITES

#: Seconds between looks at a rotation in progress, which causes no events of its own.
RECHECK_SECONDS = 3.0


class KeyRotation(Generic[RingT]):
    """Keeps one key ring for each key of one type."""

    policy: KeyringPolicy[RingT]
    controller_name: str

    def __init__(self, context: Context) -> None:
        self.context = context
        self.loop: ControlLoop[Key] = ControlLoop(
            self.controller_name,
            self.reconcile,
            workers=WORKERS,
            error_classifiers=(classify_error,),
            clock=context.clock,
        )
        self.loop.watch(context.referenced_data.secrets, affected_secrets(context, self.key_ref))
        self.loop.watch(context.controllers, key_secret(self.key_ref))
        self.loop.watch(context.accountings, key_secret(self.key_ref))
        context.runtime.add_controller(self.loop)

    @staticmethod
    def key_ref(spec: DaemonKeyRefs) -> KeyRef | None:
        """Return the reference to the key of this type in a spec."""
        raise NotImplementedError

    async def next_step(
        self, ref: KeyRef, secret: Secret, ring: RingT, wanted: bytes, users: Sequence[KeyUser]
    ) -> RotationStep[RingT]:
        """Compute the next step; `secret` contains the ring, `wanted` is the key that a person wants."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Reconcile the key rings of one Secret, which may contain several keys."""
        users = users_by_key(self.context, key, self.key_ref)
        results = [await self._advance(key.namespace, ref, users_of_key) for ref, users_of_key in users.items()]
        return next((again for again in results if again), None)

    async def _advance(self, namespace: str, ref: KeyRef, users: Sequence[KeyUser]) -> RequeueAfter | None:
        wanted = await self.context.referenced_data.secret_value(namespace, ref)
        secret = await self._find_ring(Key(namespace, self.policy.secret_name(ref)))
        if secret is None:
            await self._write(namespace, ref, RotationStep(self.policy.new_ring(wanted)), users)
            return None
        ring = self.policy.read(secret)
        unchanged = ring.stage == SETTLED and ring.current == wanted
        step = RotationStep(ring) if unchanged else await self.next_step(ref, secret, ring, wanted, users)
        description = secret.metadata.annotations.get(metadata.KEY_ROTATION, "")
        if (step.ring, self.policy.describe(step)) != (ring, description) or has_other_owners(secret, users):
            await self._write(namespace, ref, step, users)
        if step.ring.stage is not ring.stage:
            self._notify(users, step)
        return None if step.ring.stage == SETTLED else RequeueAfter(RECHECK_SECONDS)

    async def _find_ring(self, key: Key) -> Secret | None:
        """Return the Secret of a key ring. Raises `Blocked` if another Secret has its name."""
        if self.context.referenced_data.secrets.get(key) is None:
            return None
        secret = await self.context.referenced_data.secret(*key)
        if metadata.KEY_STAGE not in secret.metadata.annotations:
            raise Blocked("NameTaken", f"Secret {key.name} exists and is not a key ring of this operator; rename it")
        return secret

    async def _write(self, namespace: str, ref: KeyRef, step: RotationStep[RingT], users: Sequence[KeyUser]) -> None:
        WRITES.labels("apply", "Secret").inc()
        owners = [owner_reference(user) for user in users]
        manifest = self.policy.manifest(namespace, ref, step.ring, self.policy.describe(step), owners)
        written = await self.context.client.apply(SECRETS, manifest, manager=FIELD_MANAGER)
        self.context.referenced_data.remember(written)

    def _notify(self, users: Sequence[KeyUser], step: RotationStep[RingT]) -> None:
        """Record an event on every object that uses the key."""
        text = self.policy.descriptions.get(step.ring.stage, self.policy.completed)
        for user in users:
            reference = kind_of(user).reference(user)
            self.context.recorder.record(reference, "KeyRotation", f"Rotation of the {self.policy.label}: {text}")
