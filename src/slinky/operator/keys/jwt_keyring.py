# SPDX-License-Identifier: Apache-2.0
"""The key that Slurm checks tokens with, and how it becomes another one while tokens go on being accepted. Pure.

auth/jwt holds one HS256 key, so that two of them cannot overlap: measured, an HS256 entry in a JWKS document is
refused. Beside it, it takes any number of RS256 keys. So tokens cross over a pair of those that is made for the
occasion, the bridge: daemons learn it, Tokens are signed with it, daemons take the new key, Tokens are signed with
that, and the bridge is gone. Each stage is over only when the one before has reached everybody.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from slinky.api.fields.refs import KeyRef
from slinky.api.names import metadata, wellknown
from slinky.kube.errors import Blocked
from slinky.kube.timestamps import format_timestamp, unix_seconds
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret
from slinky.slurm.jwks import build_jwks, mint_rs256
from slinky.slurm.tokens import mint_token

NEXT, BRIDGE = "next", "bridge.pem"
UNTIMED = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}


class Stage(StrEnum):
    """How far a rotation is."""

    SETTLED = "Settled"
    OPENING = "Opening"
    CROSSING = "Crossing"
    SWITCHING = "Switching"
    LANDING = "Landing"


#: What is going on, for people.
MEANING = {
    Stage.OPENING: "step 1 of 4, slurmctld and slurmdbd learn a bridging key",
    Stage.CROSSING: "step 2 of 4, tokens are signed with the bridging key",
    Stage.SWITCHING: "step 3 of 4, slurmctld and slurmdbd take the new JWT key",
    Stage.LANDING: "step 4 of 4, tokens are signed with the new JWT key",
}

FOLLOWS = {Stage.OPENING: Stage.CROSSING, Stage.CROSSING: Stage.SWITCHING, Stage.SWITCHING: Stage.LANDING}


class Signer(NamedTuple):
    """Signs tokens: with a shared key, or with a private one that slurmctld knows by its id."""

    key: bytes
    kid: str = ""

    def sign(self, user: str, **claims: Any) -> str:
        """A new token."""
        return (partial(mint_rs256, kid=self.kid) if self.kid else mint_token)(self.key, user, **claims)

    def signed(self, token: bytes) -> bool:
        """Whether this key made this token, however old it is."""
        key = load_pem_private_key(self.key, None).public_key() if self.kid else self.key
        try:
            jwt.decode(token, key, algorithms=["RS256" if self.kid else "HS256"], options=UNTIMED)  # type: ignore[arg-type]
        except jwt.PyJWTError:
            return False
        return True


class Ring(NamedTuple):
    """The key that daemons check tokens with, the one that is to follow, the bridge between them, and since when."""

    current: bytes
    next: bytes = b""
    bridge: bytes = b""
    stage: Stage = Stage.SETTLED
    since: float = 0.0

    @property
    def kid(self) -> str:
        """The id of the bridge; empty without one."""
        return hashlib.sha256(b"slinky bridge " + self.bridge).hexdigest()[:16] if self.bridge else ""

    @property
    def signer(self) -> Signer:
        """What tokens are signed with at this stage."""
        crossing = self.stage in {Stage.CROSSING, Stage.SWITCHING}
        return Signer(self.bridge, self.kid) if crossing else Signer(self.current)

    def document(self, theirs: str) -> str:
        """The JWKS document for daemons: a site's own with the bridge in it; empty for none."""
        if not self.bridge:
            return theirs
        try:
            known = json.loads(theirs)["keys"] if theirs else []
        except (ValueError, KeyError, TypeError):
            raise Blocked("InvalidJwks", "the document that jwksKeyRef names is not a JWKS document") from None
        return json.dumps({"keys": [*known, *json.loads(build_jwks({self.kid: self.bridge}))["keys"]]})


class Reach(NamedTuple):
    """Daemons and Tokens that are not at this stage yet, when the last Token got there, and whether there is any.

    `bridged`: all daemons are ours to tell of a bridge.
    """

    daemons: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    signed: float = 0.0
    has_tokens: bool = False
    bridged: bool = True


class Step(NamedTuple):
    """The ring as it is to be, and what is waited for."""

    ring: Ring
    waits: str = ""


def name(ref: KeyRef) -> str:
    """The Secret that daemons read, beside the one that a person wrote."""
    if ref.key == wellknown.JWT_KEY:
        return f"{ref.name}-jwt-keyring"
    return f"{ref.name}-jwt-keyring-{hashlib.sha256(ref.key.encode()).hexdigest()[:8]}"


def new_bridge() -> bytes:
    """A private key; takes a moment."""
    return generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def step(ring: Ring, wanted: bytes, reach: Reach, now: float, *, settle: float, bridge: Callable[[], bytes]) -> Step:
    """What to do next. `settle` seconds bring a Secret to every pod that mounts it."""
    if ring.stage is Stage.SETTLED:
        return Step(ring) if wanted == ring.current else _begin(ring, wanted, reach, now, bridge)
    if ring.stage in {Stage.OPENING, Stage.CROSSING} and wanted != ring.next:
        # Nobody uses it yet: take the other one instead, or turn round.
        turned = ring._replace(next=wanted)
        return _enter(turned, Stage.LANDING, now) if wanted == ring.current else Step(turned)
    if waits := _waits(ring, reach, now, settle):
        return Step(ring, waits)
    if ring.stage is Stage.LANDING:
        return Step(Ring(ring.current, since=now))
    crossed = ring.stage is Stage.CROSSING
    return _enter(ring._replace(current=ring.next) if crossed else ring, FOLLOWS[ring.stage], now)


def _begin(ring: Ring, wanted: bytes, reach: Reach, now: float, bridge: Callable[[], bytes]) -> Step:
    if not (reach.has_tokens and reach.bridged):  # nobody would use a bridge, or it would lead nowhere
        return Step(Ring(wanted, since=now))
    return _enter(Ring(ring.current, wanted, bridge()), Stage.OPENING, now)


def _waits(ring: Ring, reach: Reach, now: float, settle: float) -> str:
    if ring.stage in {Stage.OPENING, Stage.SWITCHING}:
        return ", ".join(reach.daemons[:3])
    if reach.tokens:
        return "Tokens " + ", ".join(reach.tokens[:3])
    left = max(ring.since, reach.signed) + settle - now
    return "the new tokens to reach every pod" if reach.has_tokens and left > 0 else ""


def _enter(ring: Ring, stage: Stage, now: float) -> Step:
    return Step(ring._replace(stage=stage, since=now))


def describe(found: Step) -> str:
    """One sentence for the conditions; empty when nothing is going on."""
    words = MEANING.get(found.ring.stage, "")
    return f"{words}; waiting for {found.waits}" if words and found.waits else words


def secret(namespace: str, ref: KeyRef, ring: Ring, said: str, owners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ring's Secret."""
    since = format_timestamp(ring.since) if ring.since else ""
    marks = {metadata.KEY_STAGE: ring.stage.value, metadata.KEY_STAGE_SINCE: since, metadata.KEY_ROTATION: said}
    held = {wellknown.JWT_KEY: ring.current, NEXT: ring.next, BRIDGE: ring.bridge}
    data = {file: b64encode(value).decode() for file, value in held.items() if value}
    return SECRETS.manifest(
        Key(namespace, name(ref)), metadata={"annotations": marks, "ownerReferences": list(owners)}, data=data
    )


def read(held: Secret) -> Ring:
    """The ring in its Secret."""
    stage = Stage.SETTLED
    with suppress(ValueError):
        stage = Stage(held.metadata.annotations.get(metadata.KEY_STAGE, ""))
    since = unix_seconds(held.metadata.annotations.get(metadata.KEY_STAGE_SINCE, ""))
    data = held.data
    return Ring(data.get(wellknown.JWT_KEY, b""), data.get(NEXT, b""), data.get(BRIDGE, b""), stage, since)
