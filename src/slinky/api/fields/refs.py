# SPDX-License-Identifier: Apache-2.0
"""Pointing at other objects: always in the same namespace, always by name.

The shapes are those of core/v1, so that existing manifests fit. A name may be absent in the schema, as it may in
Kubernetes; a rule refuses the empty one with a sentence that says so.
"""

from typing import Annotated

from slinky.kube.schema import default, described, rule
from slinky.kube.types import View

_NAMED = (rule("size(self.name) > 0", "name must not be empty"),)

_Name = Annotated[str, default(""), described("Name of the object, in the same namespace.")]


class LocalRef(View, frozen=True):
    """Names an object in the same namespace."""

    __rules__ = _NAMED

    name: _Name = ""


class KeyRef(View, frozen=True):
    """Names one key of a Secret in the same namespace."""

    __rules__ = (*_NAMED, rule("size(self.key) > 0", "key must not be empty"))

    key: Annotated[str, described("The key to read.")]
    name: _Name = ""
    optional: Annotated[bool | None, described("Accepted for compatibility.")] = None

    @property
    def target(self) -> tuple[str, str]:
        """What it points at: the Secret and the key."""
        return self.name, self.key


class ConfigKeyRef(View, frozen=True):
    """Names one key of a ConfigMap in the same namespace."""

    __rules__ = (*_NAMED, rule("size(self.key) > 0", "key must not be empty"))

    key: Annotated[str, described("The key to read.")]
    name: _Name = ""
    optional: Annotated[bool | None, described("Accepted for compatibility.")] = None


class JwtKeyRefs(View, frozen=True):
    """The two ways to name the key that signs Slurm's tokens."""

    jwt_key_ref: Annotated[KeyRef | None, described("Secret key that signs and verifies Slurm's JSON web tokens.")] = (
        None
    )
    jwt_hs256_key_ref: Annotated[KeyRef | None, described("Deprecated alias of jwtKeyRef, which wins over it.")] = None

    @property
    def jwt_key(self) -> KeyRef | None:
        """The reference that counts."""
        return self.jwt_key_ref or self.jwt_hs256_key_ref


class DaemonKeyRefs(JwtKeyRefs, frozen=True):
    """What a Slurm daemon proves itself and others with."""

    slurm_key_ref: Annotated[KeyRef | None, described("Secret key that Slurm's daemons authenticate with.")] = None
    jwks_key_ref: Annotated[ConfigKeyRef | None, described("ConfigMap key with a JWKS document.")] = None


_HAS_JWT = "(has(self.jwtKeyRef) || has(self.jwtHs256KeyRef))"
_HAD_JWT = _HAS_JWT.replace("self", "oldSelf")


def _effective(whose: str, part: str) -> str:
    """CEL for a part of the reference that counts; references of two schemas cannot be compared whole."""
    return f"(has({whose}.jwtKeyRef) ? {whose}.jwtKeyRef.{part} : {whose}.jwtHs256KeyRef.{part})"


JWT_REQUIRED = rule(_HAS_JWT, "jwtKeyRef is required")
_JWT_REQUIRED_INSIDE = rule(f"self.external || {_HAS_JWT}", "jwtKeyRef is required unless external")
JWT_IMMUTABLE = rule(
    f"!{_HAS_JWT} || !{_HAD_JWT} || ("
    + " && ".join(f"{_effective('self', part)} == {_effective('oldSelf', part)}" for part in ("name", "key"))
    + ")",
    "jwtKeyRef is immutable",
)

#: Of every kind that is a daemon: what it needs unless it runs outside, and what stays as it is.
DAEMON_RULES = (
    rule("self.external || has(self.slurmKeyRef)", "slurmKeyRef is required unless external"),
    _JWT_REQUIRED_INSIDE,
    rule("!self.external || has(self.externalConfig)", "externalConfig is required if external"),
    JWT_IMMUTABLE,
)
