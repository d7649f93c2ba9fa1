# SPDX-License-Identifier: Apache-2.0
"""Glue: mints a Token's credential, writes it into its Secret, looks again in time."""

from slinky.api import keys
from slinky.api.controller import Controller
from slinky.api.refs import KeyRef
from slinky.api.token import TOKENS, Token
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator import references
from slinky.operator.keeper import Keeper, Outcome
from slinky.operator.metrics import WRITES
from slinky.operator.pieces import hashed
from slinky.operator.references import users
from slinky.operator.token import objects
from slinky.operator.token.plan import plan
from slinky.operator.token.status import health, issued_at
from slinky.operator.world import World


class TokenKeeper(Keeper[Token]):
    """Keeps Slurm's tokens fresh."""

    resource = TOKENS

    def __init__(self, world: World) -> None:
        super().__init__(world, world.tokens)
        world.tokens.add_indexes({references.SECRETS: references.local(references.token_secrets)})
        self.controller.watches(world.contents.secrets, users(world.tokens, references.SECRETS))

    async def act(self, found: Token) -> Outcome:
        """Replace the token if it is time."""
        ref = found.spec.jwt_key
        if ref is None:
            raise Blocked("KeyMissing", "set jwtKeyRef: something has to sign the token")
        key = await self.world.contents.secret_value(found.metadata.namespace, ref)
        now = self.world.clock.now().timestamp()
        held = await self._held(found, key)
        signed = held is not None and objects.is_signed_with(held, key)
        planned = plan(found, held, signed=signed, now=now, known=self._known(found, ref, key))
        if planned.mint:
            held = objects.signed(found, key, now).encode()
            await self._write(found, held)
            self.note(found, "TokenIssued", f"A new token for {found.username}: {planned.why}")
        known = health(held or b"", now, signed=signed or planned.mint)
        status = self.with_health(found, known, issued_at=issued_at(held or b""))
        return Outcome(status, planned.again)

    def _known(self, of: Token, ref: KeyRef, key: bytes) -> bool:
        """Whether every slurmctld that goes by this key has been started with it; true where none of ours does."""
        wanted = hashed(key)
        return all(
            self._started(cluster, wanted)
            for cluster in self.world.controllers.by(references.SECRETS, str(Key(of.metadata.namespace, ref.name)))
            if cluster.spec.jwt_key == ref and not cluster.spec.external
        )

    def _started(self, of: Controller, wanted: str) -> bool:
        pods = (self.world.pods.get(Key(of.metadata.namespace, name)) for name in of.pod_names)
        running = [pod for pod in pods if pod is not None and pod.ready]
        return all(pod.metadata.annotations.get(keys.JWT_KEY_HASH) == wanted for pod in running)

    async def _held(self, of: Token, key: bytes) -> bytes | None:
        where = Key(of.metadata.namespace, of.secret_name)
        if self.world.contents.secrets.get(where) is None:
            return None
        found = await self.world.contents.secret(*where)
        if not objects.is_of(found, of, key):
            text = f"Secret {where.name} is not of this Token, so nothing is written to it"
            raise Blocked("SecretTaken", f"{text}; delete it, or name another one in secretRef")
        if [owner.uid for owner in found.metadata.owner_references] != [of.metadata.uid]:
            await self._take_over(of, found)
        return found.data.get(of.secret_key)

    async def _take_over(self, of: Token, found: Secret) -> None:
        WRITES.labels("patch", "Secret").inc()
        meta = {"ownerReferences": [TOKENS.owner(of)], "resourceVersion": found.metadata.resource_version}
        self.world.contents.remember(await self.world.client.patch(SECRETS, found.key, {"metadata": meta}))

    async def _write(self, of: Token, token: bytes) -> None:
        WRITES.labels("apply", "Secret").inc()
        manifest = objects.secret(of, token.decode())
        made = await self.world.client.apply(SECRETS, manifest, manager=self.world.settings.manager)
        self.world.contents.remember(made)
