# SPDX-License-Identifier: Apache-2.0
"""Writes what the charts take from the code: definitions and value schemas.

`python -m charts.generate` writes the files; a test says when they are out of date.
"""

import json
from pathlib import Path
from typing import Any

from charts.schemas import values
from charts.schemas.bridge import BRIDGE

from slinky.api import crds

HERE = Path(__file__).parent
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Made by `python -m charts.generate`.\n"
#: `helm uninstall` must not delete every cluster with the definitions.
KEEP = {"helm.sh/resource-policy": "keep"}


def files() -> dict[Path, str]:
    """Every generated file and what must be in it."""
    schemas = {
        "slurm-operator": values.OPERATOR,
        "slurm-operator-crds": values.DEFINITIONS,
        "slurm": values.CLUSTER,
        "slurm-bridge": BRIDGE,
    }
    made = {
        HERE / chart / "values.schema.json": json.dumps(schema, indent=1) + "\n" for chart, schema in schemas.items()
    }
    for definition in crds.DEFINITIONS:
        path = HERE / "slurm-operator-crds/templates" / f"{definition['metadata']['name']}.yaml"
        made[path] = HEAD + crds.text([_kept(definition)])
    return made


def _kept(definition: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "metadata": {**definition["metadata"], "annotations": KEEP}}


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
