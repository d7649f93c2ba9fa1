# SPDX-License-Identifier: Apache-2.0
"""Rules that several kinds share."""

from collections.abc import Iterator
from typing import TypeVar

from slinky.api import Accounting, Controller, LoginSet, RestApi, Token
from slinky.webhook.evaluate import AdmissionChange
from slinky.webhook.rules import slurm_names, text_checks

DaemonKind = TypeVar("DaemonKind", bound=Controller | Accounting)
ServiceKind = TypeVar("ServiceKind", bound=Controller | Accounting | RestApi | LoginSet)
DeploymentKind = TypeVar("DeploymentKind", bound=RestApi | LoginSet)
SigningKind = TypeVar("SigningKind", bound=Controller | Accounting | Token)


def extra_conf_is_readable(change: AdmissionChange[DaemonKind]) -> Iterator[str]:
    """`extraConf` consists of lines that Slurm can read: no included file, no `+=`, at most 65,533 hosts."""
    text = change.new.spec.extra_conf
    errors = list(text_checks.conf_text("spec.extraConf", text))
    yield from errors
    if not errors and (problem := slurm_names.too_many_hosts(text)):
        yield f"spec.extraConf: {problem}"


def external_host_is_valid(change: AdmissionChange[DaemonKind]) -> Iterator[str]:
    """`externalConfig.host` is a single word."""
    if change.new.spec.external_config is not None:
        yield from text_checks.conf_word("spec.externalConfig.host", change.new.spec.external_config.host)


def jwt_key_is_immutable(change: AdmissionChange[SigningKind]) -> Iterator[str]:
    """`jwtKeyRef`, or its alias if only that is set, does not change."""
    old = change.old and change.old.spec.jwt_key
    if old and change.new.spec.jwt_key and old.target != change.new.spec.jwt_key.target:
        yield "spec.jwtKeyRef is immutable"


def service_name_is_valid(change: AdmissionChange[DeploymentKind]) -> Iterator[str]:
    """The name of the Service that the operator creates is valid."""
    yield from text_checks.valid_name("metadata.name", change.new.service_name, text_checks.SERVICE, "a Service")


def external_ips_are_ignored(change: AdmissionChange[ServiceKind]) -> Iterator[str]:
    """`externalIPs` of the Service are ignored, because they allow the interception of traffic (CVE-2020-8554)."""
    if change.new.spec.service.spec.get("externalIPs"):
        yield "spec.service.spec.externalIPs are ignored (CVE-2020-8554)"


def daemon_becomes_external(change: AdmissionChange[DaemonKind]) -> Iterator[str]:
    """If `external` becomes true, the operator deletes the daemon that runs in Kubernetes."""
    if change.old and not change.old.spec.external and change.new.spec.external:
        yield "spec.external: the daemon in Kubernetes will be deleted; its jobs and records are not moved"


def external_config_is_unused(change: AdmissionChange[DaemonKind]) -> Iterator[str]:
    """`externalConfig` has no effect unless `external` is true."""
    if change.new.spec.external_config and not change.new.spec.external:
        yield "spec.externalConfig has no effect unless external is true"
