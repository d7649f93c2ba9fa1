# SPDX-License-Identifier: Apache-2.0
"""The slurm key that daemons hold, and how it becomes another one without anybody being locked out. Pure.

A person's Secret says which key is wanted. Daemons read a Secret beside it, the ring, which moves in stages: both keys
are known and the old one signs, both are known and the new one signs, the new one is alone. Each stage is over only
when every daemon has read it. Measured: auth/slurm prefers slurm.jwks to slurm.key, and a slurmd that is told to read
its files again keeps to the one it was started with; hence slurm.jwks is always there, also for a single key.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from slinky.api.fields.refs import KeyRef
from slinky.api.names import metadata, wellknown
from slinky.kube.timestamps import format_timestamp, unix_seconds
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret

SLURM_JWKS = "slurm.jwks"
NEXT = "next"


class Stage(StrEnum):
    """How far a rotation is."""

    SETTLED = "Settled"
    ADDING = "Adding"
    SWITCHING = "Switching"
    RETIRING = "Retiring"


#: What is going on, for people.
MEANING = {
    Stage.ADDING: "step 1 of 3, every daemon learns the new slurm key",
    Stage.SWITCHING: "step 2 of 3, every daemon signs with the new slurm key",
    Stage.RETIRING: "step 3 of 3, every daemon forgets the old slurm key",
}


class Ring(NamedTuple):
    """The keys that daemons hold, since when, and when workers were last told to read them."""

    current: bytes
    next: bytes = b""
    stage: Stage = Stage.SETTLED
    since: float = 0.0
    told: float = 0.0
    #: Digest of the first key; workers were made with it and are not replaced for a later one.
    origin: str = ""


class Reach(NamedTuple):
    """What is known of those who hold the keys: daemons that have not read this stage, and whether workers may."""

    behind: tuple[str, ...] = ()
    workers_behind: tuple[str, ...] = ()
    has_workers: bool = False


class Step(NamedTuple):
    """The ring as it is to be, whether to tell workers to read it, and what is waited for."""

    ring: Ring
    tell: bool = False
    waits: str = ""


def name(ref: KeyRef) -> str:
    """The Secret that daemons read, beside the one that a person wrote."""
    if ref.key == wellknown.SLURM_KEY:
        return f"{ref.name}-keyring"
    return f"{ref.name}-keyring-{hashlib.sha256(ref.key.encode()).hexdigest()[:8]}"


def files(ring: Ring) -> Mapping[str, bytes]:
    """What the ring's Secret holds."""
    if ring.stage is Stage.SETTLED:
        return {wellknown.SLURM_KEY: ring.current, SLURM_JWKS: _jwks((ring.current,), ring.current)}
    if ring.stage is Stage.RETIRING:
        return {wellknown.SLURM_KEY: ring.next, NEXT: ring.next, SLURM_JWKS: _jwks((ring.next,), ring.next)}
    signer = ring.current if ring.stage is Stage.ADDING else ring.next
    jwks = _jwks((ring.current, ring.next), signer)
    return {wellknown.SLURM_KEY: ring.current, NEXT: ring.next, SLURM_JWKS: jwks}


def step(ring: Ring, wanted: bytes, reach: Reach, now: float, *, settle: float, retire: float) -> Step:
    """What to do next. `settle` seconds bring a file to every pod, `retire` seconds end every old credential."""
    if ring.stage is Stage.SETTLED:
        return Step(ring) if wanted == ring.current else _enter(ring._replace(next=wanted), Stage.ADDING, now)
    if ring.stage is Stage.ADDING and wanted != ring.next:
        # Nobody has signed with it yet: forget it, or take the other one instead.
        return _enter(ring._replace(next=wanted), Stage.RETIRING if wanted == ring.current else Stage.ADDING, now)
    waits = _waits(ring, reach, now, settle)
    if waits or _tell(ring, reach):
        return Step(ring._replace(told=now) if not waits else ring, not waits, waits)
    if ring.stage is Stage.ADDING:
        return _enter(ring, Stage.SWITCHING, now)
    if ring.stage is Stage.SWITCHING:
        left = max(ring.since, ring.told) + retire - now
        return Step(ring, waits="credentials of the old key to end") if left > 0 else _enter(ring, Stage.RETIRING, now)
    return Step(Ring(ring.next, since=now, origin=ring.origin))


def secret(namespace: str, ref: KeyRef, ring: Ring, said: str, owners: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ring's Secret. It belongs to the daemons and not to the Secret beside it, which may be replaced by another
    one under its name.
    """
    marks = {
        metadata.KEY_STAGE: ring.stage.value,
        metadata.KEY_STAGE_SINCE: _stamp(ring.since),
        metadata.KEY_WORKERS_TOLD: _stamp(ring.told),
        metadata.KEY_ORIGIN: ring.origin,
        metadata.KEY_ROTATION: said,
    }
    data = {name: b64encode(value).decode() for name, value in files(ring).items()}
    return SECRETS.manifest(
        Key(namespace, name(ref)), metadata={"annotations": marks, "ownerReferences": list(owners)}, data=data
    )


def read(held: Secret) -> Ring:
    """The ring in its Secret."""
    marks, data = held.metadata.annotations, held.data
    stage = Stage.SETTLED
    with suppress(ValueError):
        stage = Stage(marks.get(metadata.KEY_STAGE, ""))
    return Ring(
        data.get(wellknown.SLURM_KEY, b""),
        data.get(NEXT, b""),
        stage,
        unix_seconds(marks.get(metadata.KEY_STAGE_SINCE, "")),
        unix_seconds(marks.get(metadata.KEY_WORKERS_TOLD, "")),
        marks.get(metadata.KEY_ORIGIN, ""),
    )


def mounted(held: Secret) -> str:
    """A digest of what daemons find in their folder."""
    return _digest(held.data.get(SLURM_JWKS, b""))


def describe(found: Step) -> str:
    """One sentence for the conditions; empty when nothing is going on."""
    words = MEANING.get(found.ring.stage, "")
    return f"{words}; waiting for {found.waits}" if words and found.waits else words


def _stamp(when: float) -> str:
    return format_timestamp(when) if when else ""


def _waits(ring: Ring, reach: Reach, now: float, settle: float) -> str:
    if reach.behind:
        return ", ".join(reach.behind[:3])
    if reach.has_workers and now < ring.since + settle:
        return "the new file to reach every worker"
    if ring.told and reach.workers_behind:
        return "workers " + ", ".join(reach.workers_behind[:3])
    return ""


def _tell(ring: Ring, reach: Reach) -> bool:
    return reach.has_workers and not ring.told


def _enter(ring: Ring, stage: Stage, now: float) -> Step:
    return Step(ring._replace(stage=stage, since=now, told=0.0))


def _jwks(known: Sequence[bytes], signer: bytes) -> bytes:
    listed = []
    for key in known:
        entry = {"alg": "HS256", "kty": "oct", "kid": _id(key), "k": b64encode(key).decode()}
        listed.append({**entry, "use": "default"} if key == signer else entry)
    return json.dumps({"keys": listed}).encode()


def _id(key: bytes) -> str:
    """An id that tells nothing of the key."""
    return hashlib.sha256(b"slurm key id " + key).hexdigest()[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
