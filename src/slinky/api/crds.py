# SPDX-License-Identifier: Apache-2.0
"""Every CustomResourceDefinition; `python -m slinky.api.crds` prints them as YAML."""

import sys
from collections.abc import Iterable
from typing import Any

import yaml

from slinky.api import accounting, controller, loginset, nodeset, restapi, token

DEFINITIONS: tuple[dict[str, Any], ...] = tuple(
    module.DEFINITION for module in (accounting, controller, loginset, nodeset, restapi, token)
)


class _Dumper(yaml.SafeDumper):
    """Writes every list and mapping in full: the same rule in two places is no reason for an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never an alias."""
        return True


def text(definitions: Iterable[dict[str, Any]] = DEFINITIONS) -> str:
    """The definitions as one YAML file."""
    return yaml.dump_all(definitions, Dumper=_Dumper, explicit_start=True, sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(text())
