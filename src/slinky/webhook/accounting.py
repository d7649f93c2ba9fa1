# SPDX-License-Identifier: Apache-2.0
"""What an Accounting may be."""

from collections.abc import Iterator

from slinky.api import Accounting
from slinky.webhook import text_checks
from slinky.webhook.evaluate import AdmissionChange, Rules


def names_fit(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """The names of its StatefulSet and its Services, which follow from its own, are names that those may have."""
    if not change.new.spec.external:
        yield from text_checks.named(
            "metadata.name",
            change.new.workload_name,
            text_checks.SERVICE,
            text_checks.LONGEST_STATEFUL_SET,
            "which the StatefulSet of slurmdbd needs",
        )


def extra_conf_is_readable(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """`extraConf` is text that Slurm can read, line by line, and includes no other file."""
    yield from text_checks.conf_text("spec.extraConf", change.new.spec.extra_conf)


def storage_is_words(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """Host, name and user of the database are single words: nothing hides in them."""
    storage = change.new.spec.storage_config
    for name in ("host", "database", "username") if storage else ():
        yield from text_checks.conf_word(f"spec.storageConfig.{name}", getattr(storage, name))


def outside_is_a_word(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """The address of a slurmdbd outside is a single word."""
    yield from text_checks.outside(change.new.spec.external_config)


def key_stays(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """`jwtKeyRef`, or the alias that counts, stays as it was."""
    old = change.old and change.old.spec.jwt_key
    if old and change.new.spec.jwt_key and old.target != change.new.spec.jwt_key.target:
        yield "spec.jwtKeyRef is immutable"


def service_ips(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """`externalIPs` of its Service, which are dropped (CVE-2020-8554)."""
    yield from text_checks.external_ips("spec.service.spec", change.new.spec.service.spec)


def moves_out(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """A slurmdbd that is taken out of Kubernetes: the one inside goes."""
    yield from text_checks.moved(change.old.spec.external if change.old else None, change.new.spec.external)


def idle_fields(change: AdmissionChange[Accounting]) -> Iterator[str]:
    """Fields without effect on a slurmdbd that runs elsewhere."""
    spec = change.new.spec
    if spec.external and (spec.storage_config or spec.extra_conf):
        yield "spec.external: storageConfig and extraConf have no effect on a slurmdbd outside of Kubernetes"
    if spec.external_config and not spec.external:
        yield "spec.externalConfig has no effect unless external is true"


RULES = Rules(
    Accounting,
    refuse=(names_fit, extra_conf_is_readable, storage_is_words, outside_is_a_word, key_stays),
    warn=(service_ips, moves_out, idle_fields),
)
