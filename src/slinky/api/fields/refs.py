# SPDX-License-Identifier: Apache-2.0
"""References to other objects, by name and always in the same namespace.

The fields are those of core/v1, so that existing manifests stay valid. As in Kubernetes, the schema does not require
`name`; a rule rejects an empty one with a clear message.
"""

from typing import Annotated

from slinky.kube.schema import default, described, rule
from slinky.kube.types import View

_NAMED = (rule("size(self.name) > 0", "name must not be empty"),)

_Name = Annotated[str, default(""), described("Name of the object, which is in the same namespace.")]


class LocalRef(View, frozen=True):
    """Reference to an object in the same namespace."""

    __rules__ = _NAMED

    name: _Name = ""


class KeyRef(View, frozen=True):
    """Reference to one key of a Secret in the same namespace."""

    __rules__ = (*_NAMED, rule("size(self.key) > 0", "key must not be empty"))

    key: Annotated[str, described("Key in the data of that object.")]
    name: _Name = ""
    optional: Annotated[bool | None, described("Ignored; accepted for compatibility with core/v1.")] = None

    @property
    def target(self) -> tuple[str, str]:
        """The name of the Secret and the key in it."""
        return self.name, self.key


class ConfigKeyRef(View, frozen=True):
    """Reference to one key of a ConfigMap in the same namespace."""

    __rules__ = (*_NAMED, rule("size(self.key) > 0", "key must not be empty"))

    key: Annotated[str, described("Key in the data of that object.")]
    name: _Name = ""
    optional: Annotated[bool | None, described("Ignored; accepted for compatibility with core/v1.")] = None


class JwtKeyRefs(View, frozen=True):
    """References to the key that signs Slurm's tokens, with its deprecated alias."""

    jwt_key_ref: Annotated[KeyRef | None, described("Secret key that signs and verifies Slurm's JSON Web Tokens.")] = (
        None
    )
    jwt_hs256_key_ref: Annotated[
        KeyRef | None, described("Deprecated alias of jwtKeyRef; jwtKeyRef takes precedence.")
    ] = None

    @property
    def jwt_key(self) -> KeyRef | None:
        """The effective reference."""
        return self.jwt_key_ref or self.jwt_hs256_key_ref


class DaemonKeyRefs(JwtKeyRefs, frozen=True):
    """References to the keys that a Slurm daemon authenticates with."""

    slurm_key_ref: Annotated[
        KeyRef | None, described("Secret key with which Slurm's daemons authenticate each other (slurm.key).")
    ] = None
    jwks_key_ref: Annotated[
        ConfigKeyRef | None, described("ConfigMap key with a JWKS document; Slurm accepts tokens signed by its keys.")
    ] = None


_HAS_JWT = "(has(self.jwtKeyRef) || has(self.jwtHs256KeyRef))"
_HAD_JWT = _HAS_JWT.replace("self", "oldSelf")


def _effective(root: str, field: str) -> str:
    """CEL for a field of the effective reference; CEL cannot compare the two references as a whole."""
    return f"(has({root}.jwtKeyRef) ? {root}.jwtKeyRef.{field} : {root}.jwtHs256KeyRef.{field})"


JWT_REQUIRED = rule(_HAS_JWT, "jwtKeyRef is required")
_JWT_REQUIRED_UNLESS_EXTERNAL = rule(f"self.external || {_HAS_JWT}", "jwtKeyRef is required unless external")
JWT_IMMUTABLE = rule(
    f"!{_HAS_JWT} || !{_HAD_JWT} || ("
    + " && ".join(f"{_effective('self', field)} == {_effective('oldSelf', field)}" for field in ("name", "key"))
    + ")",
    "jwtKeyRef is immutable",
)

#: Rules of the kinds that run a daemon: the fields it requires unless it is external, and the immutable ones.
DAEMON_RULES = (
    rule("self.external || has(self.slurmKeyRef)", "slurmKeyRef is required unless external"),
    _JWT_REQUIRED_UNLESS_EXTERNAL,
    rule("!self.external || has(self.externalConfig)", "externalConfig is required if external"),
    JWT_IMMUTABLE,
)
