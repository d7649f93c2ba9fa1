# SPDX-License-Identifier: Apache-2.0
"""All CustomResourceDefinitions; `python -m slinky.api.crds` prints them as YAML."""

import sys
from collections.abc import Iterable
from typing import Any

import yaml

from slinky.api import accounting, controller, loginset, nodeset, restapi, token

DEFINITIONS: tuple[dict[str, Any], ...] = tuple(
    module.DEFINITION for module in (accounting, controller, loginset, nodeset, restapi, token)
)


class _Dumper(yaml.SafeDumper):
    """Writes repeated rules in full, without YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: never write an alias."""
        return True


def text(definitions: Iterable[dict[str, Any]] = DEFINITIONS) -> str:
    """Render the definitions as one YAML document stream."""
    return yaml.dump_all(definitions, Dumper=_Dumper, explicit_start=True, sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(text())
