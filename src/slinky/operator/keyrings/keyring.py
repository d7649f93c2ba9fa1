# SPDX-License-Identifier: Apache-2.0
"""Key rings: what the rotation of a slurm key and the rotation of a JWT key have in common. Pure.

The Secret that a person writes contains the wanted key. Daemons mount another Secret beside it, the key ring, which
changes from the old key to the new one in stages. The stage is stored in annotations of the key ring, so that another
operator process continues a rotation.
"""

import hashlib
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from slinky.api.fields.refs import KeyRef
from slinky.api.names import metadata
from slinky.kube.timestamps import format_timestamp, unix_seconds
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, Secret

#: File in a key ring with the key that follows the current one.
NEXT = "next"
#: The value of every stage enum for a ring without a rotation in progress.
SETTLED = "Settled"

StageT = TypeVar("StageT", bound=StrEnum)


class KeyRing(Protocol):
    """The fields that every key ring has."""

    @property
    def current(self) -> bytes:
        """The key that daemons use."""

    @property
    def stage(self) -> StrEnum:
        """The stage of the rotation."""

    @property
    def since(self) -> float:
        """When the stage began, in seconds since 1970."""


RingT = TypeVar("RingT", bound=KeyRing)


class RotationStep(NamedTuple, Generic[RingT]):
    """The key ring to write, what the stage waits for, and whether workers have to read the keys now."""

    ring: RingT
    waiting_for: str = ""
    reconfigure: bool = False


class KeyringPolicy(ABC, Generic[RingT]):
    """How the key rings of one type of key are stored and described."""

    #: The type of key in messages.
    label: ClassVar[str]
    #: File name of the key, which is also the usual key in a person's Secret.
    key_file: ClassVar[str]
    #: Suffix of the name of the key ring's Secret.
    suffix: ClassVar[str]
    #: Descriptions of the stages, and of a finished rotation.
    descriptions: ClassVar[Mapping[str, str]]
    completed: ClassVar[str]

    @abstractmethod
    def new_ring(self, key: bytes) -> RingT:
        """Return the first key ring of a key."""

    @abstractmethod
    def read(self, secret: Secret) -> RingT:
        """Return the key ring in a Secret."""

    @abstractmethod
    def files(self, ring: RingT) -> Mapping[str, bytes]:
        """Return the content of the key ring's Secret."""

    def annotations(self, ring: RingT) -> dict[str, str]:
        """Return the annotations from which `read` restores the stage."""
        return {metadata.KEY_STAGE: ring.stage.value, metadata.KEY_STAGE_SINCE: time_annotation(ring.since)}

    def secret_name(self, ref: KeyRef) -> str:
        """Return the name of the key ring's Secret, for a key in a person's Secret."""
        if ref.key == self.key_file:
            return f"{ref.name}-{self.suffix}"
        return f"{ref.name}-{self.suffix}-{hashlib.sha256(ref.key.encode()).hexdigest()[:8]}"

    def manifest(
        self, namespace: str, ref: KeyRef, ring: RingT, description: str, owners: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the manifest of the key ring's Secret.

        The Secret is owned by the daemons that use it and not by the person's Secret, which may be deleted and created
        again under its name.
        """
        annotations = {**self.annotations(ring), metadata.KEY_ROTATION: description}
        data = {file: b64encode(content).decode() for file, content in self.files(ring).items() if content}
        return SECRETS.manifest(
            Key(namespace, self.secret_name(ref)),
            metadata={"annotations": annotations, "ownerReferences": list(owners)},
            data=data,
        )

    def describe(self, step: RotationStep[RingT]) -> str:
        """Return one sentence for conditions; empty when no rotation is in progress."""
        text = self.descriptions.get(step.ring.stage, "")
        return f"{text}; waiting for {step.waiting_for}" if text and step.waiting_for else text


def read_stage(secret: Secret, stages: type[StageT]) -> StageT:
    """Return the stage in the annotations of a key ring; `Settled` if there is none."""
    with suppress(ValueError):
        return stages(secret.metadata.annotations.get(metadata.KEY_STAGE, ""))
    return stages(SETTLED)


def read_time(secret: Secret, annotation: str) -> float:
    """Return a time in the annotations of a key ring, in seconds since 1970; 0 if there is none."""
    return unix_seconds(secret.metadata.annotations.get(annotation, ""))


def time_annotation(moment: float) -> str:
    """Return a time as the value of an annotation; empty for 0."""
    return format_timestamp(moment) if moment else ""
