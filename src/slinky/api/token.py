# SPDX-License-Identifier: Apache-2.0
"""Token: a Slurm JSON web token for one user, kept fresh in a Secret."""

from typing import Annotated

from msgspec import Meta

from slinky.api.fields.conditions import HEALTH, ObjectStatus
from slinky.api.fields.durations import Duration, seconds
from slinky.api.fields.refs import JWT_IMMUTABLE, JWT_REQUIRED, JwtKeyRefs, KeyRef
from slinky.api.names import wellknown
from slinky.api.names.group import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, definition, described, rule, rules
from slinky.kube.types import Object

NOBODY = "nobody"
LIFETIME = 15 * 60.0


class TokenSpec(JwtKeyRefs, frozen=True, kw_only=True):
    """Desired state of a token."""

    __rules__ = (JWT_REQUIRED, JWT_IMMUTABLE)

    username: Annotated[str, Meta(max_length=256), described("Whom the token stands for; nobody if empty.")]
    lifetime: Annotated[
        Duration,
        rules(
            rule("duration(self) == duration('0s') || duration(self) >= duration('1s')", "lifetime must be at least 1s")
        ),
        described("How long a token is good for; 15 minutes if unset."),
    ] = ""
    refresh: Annotated[
        bool, described("Replace the token before it ends; if false the Secret is immutable and made once.")
    ] = True
    secret_ref: Annotated[
        KeyRef | None, described("Where the token goes; <name>-jwt-<username> and SLURM_JWT if unset.")
    ] = None


class TokenStatus(ObjectStatus, frozen=True):
    """Observed state of a token."""

    issued_at: Annotated[str | None, Meta(extra_json_schema={"format": "date-time"})] = None


class Token(Object, frozen=True):
    """A Slurm token."""

    spec: TokenSpec
    status: TokenStatus = TokenStatus()

    @property
    def username(self) -> str:
        """Whom the token stands for."""
        return self.spec.username or NOBODY

    @property
    def lifetime(self) -> float:
        """Seconds a token is good for."""
        return seconds(self.spec.lifetime or "0s") or LIFETIME

    @property
    def secret_name(self) -> str:
        """The Secret with the token."""
        ref = self.spec.secret_ref
        return (ref and ref.name) or f"{self.metadata.name}-jwt-{self.username}"

    @property
    def secret_key(self) -> str:
        """The key in that Secret."""
        ref = self.spec.secret_ref
        return (ref and ref.key) or wellknown.TOKEN_KEY


TOKENS = Resource(API_VERSION, "Token", "tokens", Token)

DEFINITION = definition(
    GROUP,
    VERSION,
    "Token",
    "tokens",
    spec=TokenSpec,
    status=TokenStatus,
    description="A Slurm JSON web token for one user, kept fresh in a Secret.",
    columns=[
        Column("USER", "string", ".spec.username"),
        Column("IAT", "date", ".status.issuedAt"),
        *HEALTH,
        AGE,
    ],
    short_names=["tokens", "jwt"],
    categories=CATEGORIES,
)
