# SPDX-License-Identifier: Apache-2.0
"""Reconciles Tokens: signs a token, writes it to its Secret, and replaces it in time."""

import contextlib
import math

from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.api.token import TOKENS, Token
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult
from slinky.operator.framework.references import referrers
from slinky.operator.keyrings.jwt_keyring import Signer
from slinky.operator.metrics import TOKEN_EXPIRY, WRITES
from slinky.operator.token import objects
from slinky.operator.token.plan import plan
from slinky.operator.token.status import health, issued_at
from slinky.slurm.tokens import TokenError, read_claims


class TokenReconciler(Reconciler[Token]):
    """Keeps a valid credential in the Secret of each Token."""

    resource = TOKENS

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.tokens)
        context.tokens.add_indexes({references.SECRETS: references.qualified(references.token_secrets)})
        self.loop.watch(context.referenced_data.secrets, referrers(context.tokens, references.SECRETS))

    async def sync(self, token: Token) -> ReconcileResult:
        """Replace the credential if it is due."""
        ref = token.spec.jwt_key
        if ref is None:
            raise Blocked("KeyMissing", "there is no key to sign the token with; set jwtKeyRef")
        signer = (await self.context.referenced_data.jwt_key_ring(token.metadata.namespace, ref)).signer
        now = self.context.clock.now().timestamp()
        credential = await self._credential(token, signer)
        signed = credential is not None and signer.signed(credential)
        planned = plan(token, credential, signed=signed, now=now)
        if planned.sign:
            credential = objects.sign_credential(token, signer, now).encode()
            await self._write(token, credential)
            self.record_event(token, "TokenIssued", f"Issued a new token for {token.username}: {planned.reason}")
        self._publish_expiry(token, credential or b"")
        current = health(credential or b"", now, signed=signed or planned.sign)
        status = self.with_health(token, current, issued_at=issued_at(credential or b""))
        return ReconcileResult(status, planned.requeue_after)

    def _publish_expiry(self, token: Token, credential: bytes) -> None:
        with contextlib.suppress(TokenError):
            TOKEN_EXPIRY.labels(*token.key).set(read_claims(credential.decode()).expires or math.inf)

    def forget(self, key: Key) -> None:
        """Remove the metric of a Token that no longer exists."""
        with contextlib.suppress(KeyError):
            TOKEN_EXPIRY.remove(*key)

    async def _credential(self, token: Token, signer: Signer) -> bytes | None:
        """Return the credential in the Secret. Raises `Blocked` if the Secret does not belong to the Token."""
        key = Key(token.metadata.namespace, token.secret_name)
        if self.context.referenced_data.secrets.get(key) is None:
            return None
        secret = await self.context.referenced_data.secret(*key)
        if not objects.belongs_to(secret, token, signer):
            text = f"Secret {key.name} exists and does not belong to this Token, so it is not changed"
            raise Blocked("SecretTaken", f"{text}; delete it, or name another one in secretRef")
        if [owner.uid for owner in secret.metadata.owner_references] != [token.metadata.uid]:
            await self._adopt(token, secret)
        return secret.data.get(token.secret_key)

    async def _adopt(self, token: Token, secret: Secret) -> None:
        WRITES.labels("patch", "Secret").inc()
        meta = {"ownerReferences": [TOKENS.owner(token)], "resourceVersion": secret.metadata.resource_version}
        adopted = await self.context.client.patch(SECRETS, secret.key, {"metadata": meta})
        self.context.referenced_data.remember(adopted)

    async def _write(self, token: Token, credential: bytes) -> None:
        WRITES.labels("apply", "Secret").inc()
        manifest = objects.secret(token, credential.decode())
        written = await self.context.client.apply(SECRETS, manifest, manager=FIELD_MANAGER)
        self.context.referenced_data.remember(written)
