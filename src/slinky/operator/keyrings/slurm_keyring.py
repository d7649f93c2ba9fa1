# SPDX-License-Identifier: Apache-2.0
"""The key ring of a slurm key, and the stages of its rotation. Pure.

The stages are: daemons accept both keys and sign with the old one; they accept both and sign with the new one; they
know only the new one. A stage ends when every daemon has read it, so that daemons in neighbouring stages accept each
other. Measured: auth/slurm prefers slurm.jwks to slurm.key, and a slurmd that is reconfigured keeps using the file that
it was started with; therefore slurm.jwks is always written, also for a single key.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple

from slinky.api.names import metadata, wellknown
from slinky.kube.views import Secret
from slinky.operator.keyrings.keyring import NEXT, KeyringPolicy, RotationStep, read_stage, read_time, time_annotation

SLURM_JWKS = "slurm.jwks"


class SlurmKeyStage(StrEnum):
    """Stage of the rotation of a slurm key."""

    SETTLED = "Settled"
    ADDING = "Adding"
    SWITCHING = "Switching"
    RETIRING = "Retiring"


class SlurmKeyRing(NamedTuple):
    """The keys of the daemons, the stage with its start, and when workers were last reconfigured."""

    current: bytes
    next: bytes = b""
    stage: SlurmKeyStage = SlurmKeyStage.SETTLED
    since: float = 0.0
    reconfigured_at: float = 0.0
    #: Digest of the first key. Workers are created with it and are not replaced for a later key.
    origin: str = ""


class SlurmKeyReach(NamedTuple):
    """The workloads and workers that have not read the current stage, and whether there are workers at all."""

    workloads_behind: tuple[str, ...] = ()
    workers_behind: tuple[str, ...] = ()
    has_workers: bool = False


class SlurmKeyringPolicy(KeyringPolicy[SlurmKeyRing]):
    """Key rings of slurm keys."""

    label = "slurm key"
    key_file = wellknown.SLURM_KEY
    suffix = "keyring"
    descriptions: ClassVar[Mapping[str, str]] = {
        SlurmKeyStage.ADDING: "step 1 of 3, every daemon learns the new slurm key",
        SlurmKeyStage.SWITCHING: "step 2 of 3, every daemon signs with the new slurm key",
        SlurmKeyStage.RETIRING: "step 3 of 3, every daemon forgets the old slurm key",
    }
    completed = "done, daemons know only the new slurm key"

    def new_ring(self, key: bytes) -> SlurmKeyRing:
        """Return a ring with one key, which is also its origin."""
        return SlurmKeyRing(key, origin=hashlib.sha256(key).hexdigest())

    def read(self, secret: Secret) -> SlurmKeyRing:
        """Return the key ring in a Secret."""
        return SlurmKeyRing(
            secret.data.get(wellknown.SLURM_KEY, b""),
            secret.data.get(NEXT, b""),
            read_stage(secret, SlurmKeyStage),
            read_time(secret, metadata.KEY_STAGE_SINCE),
            read_time(secret, metadata.KEY_WORKERS_TOLD),
            secret.metadata.annotations.get(metadata.KEY_ORIGIN, ""),
        )

    def annotations(self, ring: SlurmKeyRing) -> dict[str, str]:
        """Return the annotations from which `read` restores the stage."""
        return {
            **super().annotations(ring),
            metadata.KEY_WORKERS_TOLD: time_annotation(ring.reconfigured_at),
            metadata.KEY_ORIGIN: ring.origin,
        }

    def files(self, ring: SlurmKeyRing) -> Mapping[str, bytes]:
        """Return the key files that daemons mount."""
        if ring.stage is SlurmKeyStage.SETTLED:
            return {wellknown.SLURM_KEY: ring.current, SLURM_JWKS: _jwks((ring.current,), ring.current)}
        if ring.stage is SlurmKeyStage.RETIRING:
            return {wellknown.SLURM_KEY: ring.next, NEXT: ring.next, SLURM_JWKS: _jwks((ring.next,), ring.next)}
        signer = ring.current if ring.stage is SlurmKeyStage.ADDING else ring.next
        jwks = _jwks((ring.current, ring.next), signer)
        return {wellknown.SLURM_KEY: ring.current, NEXT: ring.next, SLURM_JWKS: jwks}


SLURM_KEYRING = SlurmKeyringPolicy()

SlurmKeyStep = RotationStep[SlurmKeyRing]


def next_step(
    ring: SlurmKeyRing, wanted: bytes, reach: SlurmKeyReach, now: float, *, settle: float, retire: float
) -> SlurmKeyStep:
    """Return the next step of a rotation.

    After `settle` seconds a changed Secret has reached every pod; after `retire` seconds every credential that was
    signed with the old key has expired.
    """
    if ring.stage is SlurmKeyStage.SETTLED:
        unchanged = wanted == ring.current
        return SlurmKeyStep(ring) if unchanged else _enter(ring._replace(next=wanted), SlurmKeyStage.ADDING, now)
    if ring.stage is SlurmKeyStage.ADDING and wanted != ring.next:
        # No daemon has signed with the next key yet, so it can be dropped or replaced.
        stage = SlurmKeyStage.RETIRING if wanted == ring.current else SlurmKeyStage.ADDING
        return _enter(ring._replace(next=wanted), stage, now)
    if waiting_for := _waiting_for(ring, reach, now, settle):
        return SlurmKeyStep(ring, waiting_for)
    if reach.has_workers and not ring.reconfigured_at:
        return SlurmKeyStep(ring._replace(reconfigured_at=now), reconfigure=True)
    return _finish_stage(ring, now, retire)


def _finish_stage(ring: SlurmKeyRing, now: float, retire: float) -> SlurmKeyStep:
    """Return the step after a stage that every daemon has read."""
    if ring.stage is SlurmKeyStage.ADDING:
        return _enter(ring, SlurmKeyStage.SWITCHING, now)
    if ring.stage is SlurmKeyStage.RETIRING:
        return SlurmKeyStep(SlurmKeyRing(ring.next, since=now, origin=ring.origin))
    if max(ring.since, ring.reconfigured_at) + retire > now:
        return SlurmKeyStep(ring, "credentials of the old key to expire")
    return _enter(ring, SlurmKeyStage.RETIRING, now)


def mounted_digest(secret: Secret) -> str:
    """Return a digest of the keys that daemons mount."""
    return hashlib.sha256(secret.data.get(SLURM_JWKS, b"")).hexdigest()


def _waiting_for(ring: SlurmKeyRing, reach: SlurmKeyReach, now: float, settle: float) -> str:
    if reach.workloads_behind:
        return ", ".join(reach.workloads_behind[:3])
    if reach.has_workers and now < ring.since + settle:
        return "the new file to reach every worker"
    if ring.reconfigured_at and reach.workers_behind:
        return "workers " + ", ".join(reach.workers_behind[:3])
    return ""


def _enter(ring: SlurmKeyRing, stage: SlurmKeyStage, now: float) -> SlurmKeyStep:
    return SlurmKeyStep(ring._replace(stage=stage, since=now, reconfigured_at=0.0))


def _jwks(keys: Sequence[bytes], signer: bytes) -> bytes:
    entries = []
    for key in keys:
        entry = {"alg": "HS256", "kty": "oct", "kid": _key_id(key), "k": b64encode(key).decode()}
        entries.append({**entry, "use": "default"} if key == signer else entry)
    return json.dumps({"keys": entries}).encode()


def _key_id(key: bytes) -> str:
    """Return an id from which the key cannot be derived."""
    return hashlib.sha256(b"slurm key id " + key).hexdigest()[:16]
