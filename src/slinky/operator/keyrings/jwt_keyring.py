# SPDX-License-Identifier: Apache-2.0
"""The key ring of a JWT key, and the stages of its rotation, during which every token is accepted. Pure.

auth/jwt accepts one HS256 key, so two of them cannot overlap (measured: an HS256 entry in a JWKS document is refused).
Beside that key it accepts any number of RS256 keys. So a rotation goes through a temporary RS256 key pair, the bridging
key: daemons learn it, Tokens are signed with it, daemons take the new key, Tokens are signed with the new key, and the
bridging key is dropped. A stage ends when every daemon, or every Token, has reached it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from slinky.api.names import metadata, wellknown
from slinky.kube.errors import Blocked
from slinky.kube.views import Secret
from slinky.operator.keyrings.keyring import NEXT, KeyringPolicy, RotationStep, read_stage, read_time
from slinky.slurm.jwks import build_jwks, mint_rs256
from slinky.slurm.tokens import mint_token

#: File in a key ring with the private half of the bridging key.
BRIDGE = "bridge.pem"
IGNORE_TIMES = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}


class JwtKeyStage(StrEnum):
    """Stage of the rotation of a JWT key."""

    SETTLED = "Settled"
    OPENING = "Opening"
    CROSSING = "Crossing"
    SWITCHING = "Switching"
    LANDING = "Landing"


NEXT_STAGE = {
    JwtKeyStage.OPENING: JwtKeyStage.CROSSING,
    JwtKeyStage.CROSSING: JwtKeyStage.SWITCHING,
    JwtKeyStage.SWITCHING: JwtKeyStage.LANDING,
}


class Signer(NamedTuple):
    """Signs tokens: with a shared key, or with a private key that slurmctld knows by its id."""

    key: bytes
    kid: str = ""

    def sign(self, user: str, **claims: Any) -> str:
        """Return a new token."""
        return (partial(mint_rs256, kid=self.kid) if self.kid else mint_token)(self.key, user, **claims)

    def signed(self, token: bytes) -> bool:
        """Return whether this key has signed the token; expired tokens count too."""
        key = load_pem_private_key(self.key, None).public_key() if self.kid else self.key
        try:
            jwt.decode(token, key, algorithms=["RS256" if self.kid else "HS256"], options=IGNORE_TIMES)  # type: ignore[arg-type]
        except jwt.PyJWTError:
            return False
        return True


class JwtKeyRing(NamedTuple):
    """The key of the daemons, the key that follows it, the bridging key, and the stage with its start."""

    current: bytes
    next: bytes = b""
    bridge: bytes = b""
    stage: JwtKeyStage = JwtKeyStage.SETTLED
    since: float = 0.0

    @property
    def kid(self) -> str:
        """The id of the bridging key; empty without one."""
        return hashlib.sha256(b"slinky bridge " + self.bridge).hexdigest()[:16] if self.bridge else ""

    @property
    def signer(self) -> Signer:
        """The key that signs tokens in this stage."""
        bridged = self.stage in {JwtKeyStage.CROSSING, JwtKeyStage.SWITCHING}
        return Signer(self.bridge, self.kid) if bridged else Signer(self.current)

    def document(self, site_document: str) -> str:
        """Return the JWKS document for daemons: the site's own with the bridging key added; empty for none."""
        if not self.bridge:
            return site_document
        try:
            site_keys = json.loads(site_document)["keys"] if site_document else []
        except (ValueError, KeyError, TypeError):
            text = "the ConfigMap that jwksKeyRef names does not contain a JWKS document; correct it"
            raise Blocked("InvalidJwks", text) from None
        return json.dumps({"keys": [*site_keys, *json.loads(build_jwks({self.kid: self.bridge}))["keys"]]})


class JwtKeyReach(NamedTuple):
    """The daemons and Tokens that have not reached the current stage.

    `signed_at` is when the last Token was signed. `bridgeable` is false if a daemon is external, since the operator
    cannot give it a bridging key.
    """

    daemons_behind: tuple[str, ...] = ()
    tokens_behind: tuple[str, ...] = ()
    signed_at: float = 0.0
    has_tokens: bool = False
    bridgeable: bool = True


class JwtKeyringPolicy(KeyringPolicy[JwtKeyRing]):
    """Key rings of JWT keys."""

    label = "JWT key"
    key_file = wellknown.JWT_KEY
    suffix = "jwt-keyring"
    descriptions: ClassVar[Mapping[str, str]] = {
        JwtKeyStage.OPENING: "step 1 of 4, slurmctld and slurmdbd learn a bridging key",
        JwtKeyStage.CROSSING: "step 2 of 4, tokens are signed with the bridging key",
        JwtKeyStage.SWITCHING: "step 3 of 4, slurmctld and slurmdbd take the new JWT key",
        JwtKeyStage.LANDING: "step 4 of 4, tokens are signed with the new JWT key",
    }
    completed = "done, tokens are signed with the new JWT key"

    def new_ring(self, key: bytes) -> JwtKeyRing:
        """Return a ring with one key."""
        return JwtKeyRing(key)

    def read(self, secret: Secret) -> JwtKeyRing:
        """Return the key ring in a Secret."""
        return JwtKeyRing(
            secret.data.get(wellknown.JWT_KEY, b""),
            secret.data.get(NEXT, b""),
            secret.data.get(BRIDGE, b""),
            read_stage(secret, JwtKeyStage),
            read_time(secret, metadata.KEY_STAGE_SINCE),
        )

    def files(self, ring: JwtKeyRing) -> Mapping[str, bytes]:
        """Return the content of the key ring's Secret."""
        return {wellknown.JWT_KEY: ring.current, NEXT: ring.next, BRIDGE: ring.bridge}


JWT_KEYRING = JwtKeyringPolicy()

JwtKeyStep = RotationStep[JwtKeyRing]


def new_bridge() -> bytes:
    """Return a new private key; takes about a tenth of a second."""
    return generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def next_step(
    ring: JwtKeyRing, wanted: bytes, reach: JwtKeyReach, now: float, *, settle: float, bridge: Callable[[], bytes]
) -> JwtKeyStep:
    """Return the next step of a rotation; after `settle` seconds a changed Secret has reached every pod."""
    if ring.stage is JwtKeyStage.SETTLED:
        return JwtKeyStep(ring) if wanted == ring.current else _begin(ring, wanted, reach, now, bridge)
    if ring.stage in {JwtKeyStage.OPENING, JwtKeyStage.CROSSING} and wanted != ring.next:
        # No daemon has the next key yet, so it can be replaced, or the rotation can be reverted.
        replaced = ring._replace(next=wanted)
        return _enter(replaced, JwtKeyStage.LANDING, now) if wanted == ring.current else JwtKeyStep(replaced)
    if waiting_for := _waiting_for(ring, reach, now, settle):
        return JwtKeyStep(ring, waiting_for)
    if ring.stage is JwtKeyStage.LANDING:
        return JwtKeyStep(JwtKeyRing(ring.current, since=now))
    switched = ring._replace(current=ring.next) if ring.stage is JwtKeyStage.CROSSING else ring
    return _enter(switched, NEXT_STAGE[ring.stage], now)


def _begin(ring: JwtKeyRing, wanted: bytes, reach: JwtKeyReach, now: float, bridge: Callable[[], bytes]) -> JwtKeyStep:
    if not (reach.has_tokens and reach.bridgeable):  # no Token would use a bridging key, or a daemon would not know it
        return JwtKeyStep(JwtKeyRing(wanted, since=now))
    return _enter(JwtKeyRing(ring.current, wanted, bridge()), JwtKeyStage.OPENING, now)


def _waiting_for(ring: JwtKeyRing, reach: JwtKeyReach, now: float, settle: float) -> str:
    if ring.stage in {JwtKeyStage.OPENING, JwtKeyStage.SWITCHING}:
        return ", ".join(reach.daemons_behind[:3])
    if reach.tokens_behind:
        return "Tokens " + ", ".join(reach.tokens_behind[:3])
    remaining = max(ring.since, reach.signed_at) + settle - now
    return "the new tokens to reach every pod" if reach.has_tokens and remaining > 0 else ""


def _enter(ring: JwtKeyRing, stage: JwtKeyStage, now: float) -> JwtKeyStep:
    return JwtKeyStep(ring._replace(stage=stage, since=now))
