# SPDX-License-Identifier: Apache-2.0
"""Rules for Tokens."""

from collections.abc import Iterator

from slinky.api import Token
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.rules import text_checks
from slinky.webhook.rules.shared_rules import jwt_key_is_immutable


def username_is_a_word(change: AdmissionChange[Token]) -> Iterator[str]:
    """`username` is a single word."""
    yield from text_checks.conf_word("spec.username", change.new.spec.username)


def secret_name_is_valid(change: AdmissionChange[Token]) -> Iterator[str]:
    """The name of the Secret, `secretRef.name` or `<name>-jwt-<username>`, is valid."""
    purpose = "a Secret (set spec.secretRef to choose another name)"
    yield from text_checks.valid_name("spec.secretRef", change.new.secret_name, text_checks.SUBDOMAIN, purpose)


def secret_is_not_the_key(change: AdmissionChange[Token]) -> Iterator[str]:
    """The token is not written to the Secret with the key that signs it."""
    key = change.new.spec.jwt_key
    if key and key.name == change.new.secret_name:
        yield f"spec.secretRef: Secret {key.name} contains the signing key; choose another Secret"


def administrator_token(change: AdmissionChange[Token]) -> Iterator[str]:
    """A token of root or slurm gives full control of the Slurm cluster."""
    if change.new.username in {"root", "slurm"}:
        yield f"spec.username: a token of {change.new.username} gives full control of the Slurm cluster"


RULES = Rules(
    Token,
    refuse=(username_is_a_word, secret_name_is_valid, secret_is_not_the_key, jwt_key_is_immutable),
    warn=(administrator_token,),
)
