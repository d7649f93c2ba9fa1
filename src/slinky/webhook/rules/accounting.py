# SPDX-License-Identifier: Apache-2.0
"""Rules for Accountings."""

from collections.abc import Iterator

from slinky.api import Accounting
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.rules import text_checks
from slinky.webhook.rules.shared_rules import (
    daemon_becomes_external,
    external_config_is_unused,
    external_host_is_valid,
    external_ips_are_ignored,
    extra_conf_is_readable,
    jwt_key_is_immutable,
)


def child_names_are_valid(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """The name of the StatefulSet and of the Service that the operator creates is valid."""
    if not change.new.spec.external:
        yield from text_checks.valid_name(
            "metadata.name", change.new.workload_name, text_checks.STATEFUL_SET, "the StatefulSet of slurmdbd"
        )


def storage_config_is_words(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """`storageConfig.host`, `.database` and `.username` are single words."""
    storage = change.new.spec.storage_config
    for name in ("host", "database", "username") if storage else ():
        yield from text_checks.conf_word(f"spec.storageConfig.{name}", getattr(storage, name))


def fields_are_unused(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """`storageConfig` and `extraConf` have no effect on an external slurmdbd."""
    spec = change.new.spec
    if spec.external and (spec.storage_config or spec.extra_conf):
        yield "spec.external: storageConfig and extraConf have no effect on an external slurmdbd"


RULES = Rules(
    Accounting,
    refuse=(
        child_names_are_valid,
        extra_conf_is_readable,
        storage_config_is_words,
        external_host_is_valid,
        jwt_key_is_immutable,
    ),
    warn=(external_ips_are_ignored, daemon_becomes_external, fields_are_unused, external_config_is_unused),
)
