# SPDX-License-Identifier: Apache-2.0
"""What the kinds that face people may be: LoginSet, RestApi, Token."""

from collections.abc import Iterator

from slinky.api import LoginSet, RestApi, Token
from slinky.webhook import text_checks
from slinky.webhook.evaluate import AdmissionChange, Rules

# --- LoginSet


def login_name_fits(change: AdmissionChange[LoginSet]) -> Iterator[str]:
    """The name of its Service is a name that a Service may have."""
    name = change.new.service_name
    yield from text_checks.named(
        "metadata.name", name, text_checks.SERVICE, text_checks.LONGEST_LABEL, "as a Service must"
    )


def login_text_is_plain(change: AdmissionChange[LoginSet]) -> Iterator[str]:
    """Text for sshd has no control characters."""
    yield from text_checks.plain_text("spec.extraSshdConfig", change.new.spec.extra_sshd_config)
    yield from text_checks.plain_text("spec.rootSshAuthorizedKeys", change.new.spec.root_ssh_authorized_keys)


def login_ips(change: AdmissionChange[LoginSet]) -> Iterator[str]:
    """`externalIPs` of its Service, which are dropped (CVE-2020-8554)."""
    yield from text_checks.external_ips("spec.service.spec", change.new.spec.service.spec)


LOGIN_SET = Rules(LoginSet, refuse=(login_name_fits, login_text_is_plain), warn=(login_ips,))

# --- RestApi


def rest_name_fits(change: AdmissionChange[RestApi]) -> Iterator[str]:
    """The name of its Service is a name that a Service may have."""
    name = change.new.service_name
    yield from text_checks.named(
        "metadata.name", name, text_checks.SERVICE, text_checks.LONGEST_LABEL, "as a Service must"
    )


def rest_ips(change: AdmissionChange[RestApi]) -> Iterator[str]:
    """`externalIPs` of its Service, which are dropped (CVE-2020-8554)."""
    yield from text_checks.external_ips("spec.service.spec", change.new.spec.service.spec)


REST_API = Rules(RestApi, refuse=(rest_name_fits,), warn=(rest_ips,))

# --- Token


def user_is_a_word(change: AdmissionChange[Token]) -> Iterator[str]:
    """The name of the user is a single word."""
    yield from text_checks.conf_word("spec.username", change.new.spec.username)


def secret_can_be_named(change: AdmissionChange[Token]) -> Iterator[str]:
    """The Secret's name, which has the user in it unless it is given, is one Kubernetes takes."""
    why = "as a Secret must; set spec.secretRef"
    yield from text_checks.named(
        "spec.secretRef", change.new.secret_name, text_checks.SUBDOMAIN, text_checks.LONGEST_SUBDOMAIN, why
    )


def secret_is_not_the_key(change: AdmissionChange[Token]) -> Iterator[str]:
    """The token does not go where the key is that signs it."""
    key = change.new.spec.jwt_key
    if key and key.name == change.new.secret_name:
        yield f"spec.secretRef: Secret {key.name} holds the key that signs; name another one"


def token_key_stays(change: AdmissionChange[Token]) -> Iterator[str]:
    """`jwtKeyRef`, or the alias that counts, stays as it was."""
    old = change.old and change.old.spec.jwt_key
    if old and change.new.spec.jwt_key and old.target != change.new.spec.jwt_key.target:
        yield "spec.jwtKeyRef is immutable"


def administrators(change: AdmissionChange[Token]) -> Iterator[str]:
    """A token of root or slurm, which can do anything in the cluster."""
    if change.new.username in {"root", "slurm"}:
        yield f"spec.username: a token of {change.new.username} can do anything in the Slurm cluster"


TOKEN = Rules(
    Token,
    refuse=(user_is_a_word, secret_can_be_named, secret_is_not_the_key, token_key_stays),
    warn=(administrators,),
)
