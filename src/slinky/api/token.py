# SPDX-License-Identifier: Apache-2.0
"""Token: a JSON Web Token of Slurm for one user, in a Secret that the operator renews."""

from typing import Annotated

from msgspec import Meta

from slinky.api.fields.amounts import Duration, seconds
from slinky.api.fields.conditions import HEALTH, ObjectStatus
from slinky.api.fields.refs import JWT_IMMUTABLE, JWT_REQUIRED, JwtKeyRefs, KeyRef
from slinky.api.names import wellknown
from slinky.api.names.wellknown import API_VERSION, CATEGORIES, GROUP, VERSION
from slinky.kube.resource import Resource
from slinky.kube.schema import AGE, Column, definition, described, openapi_format, rule, rules
from slinky.kube.types import Object

NOBODY = "nobody"
LIFETIME = 15 * 60.0


class TokenSpec(JwtKeyRefs, frozen=True, kw_only=True):
    """Desired state of a token."""

    __rules__ = (JWT_REQUIRED, JWT_IMMUTABLE)

    username: Annotated[
        str, Meta(max_length=256), described("Slurm user that the token authenticates as; if empty, the user `nobody`.")
    ]
    lifetime: Annotated[
        Duration,
        rules(
            rule("duration(self) == duration('0s') || duration(self) >= duration('1s')", "lifetime must be at least 1s")
        ),
        described("How long a token is valid; if unset or 0s, 15 minutes."),
    ] = ""
    refresh: Annotated[
        bool,
        described("Renew the token before it expires. If false, the token is issued once and the Secret is immutable."),
    ] = True
    secret_ref: Annotated[
        KeyRef | None,
        described("Secret and key that receive the token; if unset, <name>-jwt-<username> and SLURM_JWT."),
    ] = None


class TokenStatus(ObjectStatus, frozen=True):
    """Observed state of a token."""

    issued_at: Annotated[str | None, openapi_format("date-time"), described("When the current token was issued.")] = (
        None
    )


class Token(Object, frozen=True):
    """A Slurm token."""

    spec: TokenSpec
    status: TokenStatus = TokenStatus()

    @property
    def username(self) -> str:
        """Slurm user that the token authenticates as."""
        return self.spec.username or NOBODY

    @property
    def lifetime(self) -> float:
        """Seconds that a token is valid."""
        return seconds(self.spec.lifetime or "0s") or LIFETIME

    @property
    def secret_name(self) -> str:
        """Name of the Secret with the token."""
        ref = self.spec.secret_ref
        return (ref and ref.name) or f"{self.metadata.name}-jwt-{self.username}"

    @property
    def secret_key(self) -> str:
        """Key in that Secret."""
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
    description="A JSON Web Token for one Slurm user, in a Secret that the operator renews.",
    columns=[
        Column("USER", "string", ".spec.username"),
        Column("IAT", "date", ".status.issuedAt"),
        *HEALTH,
        AGE,
    ],
    short_names=["tokens", "jwt"],
    categories=CATEGORIES,
)
