# SPDX-License-Identifier: Apache-2.0
"""Rules for RestApis."""

from slinky.api import RestApi
from slinky.webhook.evaluate import Rules
from slinky.webhook.rules.shared_rules import external_ips_are_ignored, service_name_is_valid

RULES = Rules(RestApi, refuse=(service_name_is_valid,), warn=(external_ips_are_ignored,))
