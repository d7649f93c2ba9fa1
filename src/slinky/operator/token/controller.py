# SPDX-License-Identifier: Apache-2.0
"""Glue: mints a Token's credential, writes it into its Secret, looks again in time."""

from slinky.api.token import TOKENS, Token
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult
from slinky.operator.framework.references import users
from slinky.operator.keys.jwt_keyring import Signer
from slinky.operator.metrics import WRITES
from slinky.operator.token import objects
from slinky.operator.token.plan import plan
from slinky.operator.token.status import health, issued_at


class TokenReconciler(Reconciler[Token]):
    """Keeps Slurm's tokens fresh."""

    resource = TOKENS

    def __init__(self, world: Context) -> None:
        super().__init__(world, world.tokens)
        world.tokens.add_indexes({references.SECRETS: references.local(references.token_secrets)})
        self.controller.watch(world.contents.secrets, users(world.tokens, references.SECRETS))

    async def act(self, found: Token) -> ReconcileResult:
        """Replace the token if it is time."""
        ref = found.spec.jwt_key
        if ref is None:
            raise Blocked("KeyMissing", "set jwtKeyRef: something has to sign the token")
        signer = (await self.world.contents.jwt(found.metadata.namespace, ref)).signer
        now = self.world.clock.now().timestamp()
        held = await self._held(found, signer)
        signed = held is not None and signer.signed(held)
        planned = plan(found, held, signed=signed, now=now)
        if planned.mint:
            held = objects.signed(found, signer, now).encode()
            await self._write(found, held)
            self.note(found, "TokenIssued", f"A new token for {found.username}: {planned.why}")
        known = health(held or b"", now, signed=signed or planned.mint)
        status = self.with_health(found, known, issued_at=issued_at(held or b""))
        return ReconcileResult(status, planned.again)

    async def _held(self, of: Token, signer: Signer) -> bytes | None:
        where = Key(of.metadata.namespace, of.secret_name)
        if self.world.contents.secrets.get(where) is None:
            return None
        found = await self.world.contents.secret(*where)
        if not objects.is_of(found, of, signer):
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
