# SPDX-License-Identifier: Apache-2.0
"""Rules for LoginSets."""

from collections.abc import Iterator

from slinky.api import LoginSet
from slinky.webhook.evaluate import AdmissionChange, Rules
from slinky.webhook.rules import text_checks
from slinky.webhook.rules.shared_rules import external_ips_are_ignored, service_name_is_valid


def ssh_text_is_plain(change: AdmissionChange[LoginSet]) -> Iterator[str]:
    """`extraSshdConfig` and `rootSshAuthorizedKeys` contain no control characters."""
    yield from text_checks.plain_text("spec.extraSshdConfig", change.new.spec.extra_sshd_config)
    yield from text_checks.plain_text("spec.rootSshAuthorizedKeys", change.new.spec.root_ssh_authorized_keys)


RULES = Rules(LoginSet, refuse=(service_name_is_valid, ssh_text_is_plain), warn=(external_ips_are_ignored,))
