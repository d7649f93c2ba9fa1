# SPDX-License-Identifier: Apache-2.0
"""Rotates JWT keys.

Controllers, Accountings and Tokens read the key ring and follow it in their own reconciles. The rotation only checks
how far they are.
"""

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Sequence

from slinky.api.controller import Controller
from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.api.names import metadata, wellknown
from slinky.api.token import Token
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SECRETS, STATEFUL_SETS, Secret
from slinky.operator.build.pod_parts import digest_value
from slinky.operator.framework import references
from slinky.operator.framework.children import Child
from slinky.operator.keyrings import jwt_keyring
from slinky.operator.keyrings.jwt_keyring import JWT_KEYRING, JwtKeyReach, JwtKeyRing, JwtKeyStage, JwtKeyStep
from slinky.operator.keys.rotation import KeyRotation
from slinky.operator.keys.users import KeyUser
from slinky.slurm.tokens import TokenError, read_claims


class JwtKeyRotation(KeyRotation[JwtKeyRing]):
    """Keeps the key rings of JWT keys."""

    policy = JWT_KEYRING
    controller_name = "jwt-keyring-controller"

    @staticmethod
    def key_ref(spec: DaemonKeyRefs) -> KeyRef | None:
        """Return the reference to the JWT key."""
        return spec.jwt_key

    async def next_step(
        self, ref: KeyRef, secret: Secret, ring: JwtKeyRing, wanted: bytes, users: Sequence[KeyUser]
    ) -> JwtKeyStep:
        """Compute the next step."""
        reach = await self._reach(Key(secret.metadata.namespace, ref.name), ref, ring, users)
        now = self.context.clock.now().timestamp()
        # The key is generated in a thread, needed or not: in the event loop it would delay all other work.
        bridge = await asyncio.to_thread(jwt_keyring.new_bridge) if ring.stage is JwtKeyStage.SETTLED else b""
        settle = self.context.settings.key_settle
        return jwt_keyring.next_step(ring, wanted, reach, now, settle=settle, bridge=lambda: bridge)

    async def _reach(self, secret: Key, ref: KeyRef, ring: JwtKeyRing, users: Sequence[KeyUser]) -> JwtKeyReach:
        """Return which daemons and Tokens have not reached the stage of the ring."""
        daemons = [user for user in users if not user.spec.external]
        daemons_behind = tuple(user.workload_name for user in daemons if not self._has_loaded(user, ring))
        # A Token that is never refreshed becomes invalid with its key, whatever the operator does.
        tokens = [token for token in self._tokens(secret, ref) if token.spec.refresh]
        tokens_behind, signed_at = [], 0.0
        for token in tokens:
            credential = await self._credential(token)
            if credential is None or not ring.signer.signed(credential):
                tokens_behind.append(token.metadata.name)
            else:
                signed_at = max(signed_at, _issued_at(credential))
        bridgeable = len(daemons) == len(users)
        return JwtKeyReach(daemons_behind, tuple(tokens_behind), signed_at, bool(tokens), bridgeable)

    def _has_loaded(self, user: KeyUser, ring: JwtKeyRing) -> bool:
        """Return whether a daemon has been started with the current key and the bridging key of the ring."""
        children, config_key = self.context.children, Key(user.metadata.namespace, user.config_name)
        config = children.find(CONFIG_MAPS if isinstance(user, Controller) else SECRETS, config_key)
        if config is None or ring.kid not in _jwks_document(config):
            return False
        pod_annotations = {metadata.JWT_KEY_HASH: digest_value(ring.current)}
        if isinstance(user, Controller):
            generation = config.metadata.annotations.get(metadata.CONFIG_GENERATION, "")
            if user.status.loaded_config != generation:
                return False
            if not user.spec.inplace_reconfigure:
                started = config.metadata.annotations.get(metadata.CONFIG_STARTED)
                pod_annotations[metadata.SLURM_CONFIG_HASH] = started or generation.partition("-")[2]
        else:
            digest = config.metadata.annotations.get(metadata.SLURMDBD_CONF_HASH, "")
            pod_annotations[metadata.SLURMDBD_CONF_HASH] = digest
        workload = Key(user.metadata.namespace, user.workload_name)
        return children.is_rolled_out(STATEFUL_SETS, workload, pod_annotations)

    def _tokens(self, secret: Key, ref: KeyRef) -> Iterable[Token]:
        """Return the Tokens that are signed with this key."""
        tokens = self.context.tokens.by(references.SECRETS, str(secret))
        return (token for token in tokens if token.spec.jwt_key is not None and token.spec.jwt_key.target == ref.target)

    async def _credential(self, token: Token) -> bytes | None:
        key = Key(token.metadata.namespace, token.secret_name)
        if self.context.referenced_data.secrets.get(key) is None:
            return None
        return (await self.context.referenced_data.secret(*key)).data.get(token.secret_key)


def _jwks_document(config: Child) -> str:
    """Return the JWKS document beside a configuration: plain in a ConfigMap, base64 in a Secret."""
    document: str = (config.data or {}).get(wellknown.JWKS, "")
    return document if document.startswith("{") else b64decode(document).decode()


def _issued_at(credential: bytes) -> float:
    try:
        return read_claims(credential.decode(errors="replace")).issued or 0.0
    except TokenError:
        return 0.0
