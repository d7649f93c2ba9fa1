# SPDX-License-Identifier: Apache-2.0
"""How long a warm lab takes to come up, part by part.

The baseline is the start of the plain control plane (etcd and kube-apiserver alone) in the same run, since the
machine's speed of the moment decides both.
"""

import json
import time
from pathlib import Path

from slinky.cli.output import print_table
from slinky.lab import bringup
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

RESULT = Path(__file__).parent / "results" / "lab.json"


def main() -> None:
    ArtifactInventory.of().prepare(Progress())
    started = time.monotonic()
    with BarePlane.running():
        baseline = time.monotonic() - started
    started = time.monotonic()
    lab = bringup.up(bringup.LabOptions(name="bench", nodes=2, slurm="beside"), Progress())
    whole = time.monotonic() - started
    started = time.monotonic()
    bringup.down(lab.name)
    parts = {"plain control plane (baseline)": baseline, **lab.state.seconds}
    parts |= {"the whole lab": whole, "down": time.monotonic() - started}
    rows = [(name, f"{seconds:.1f}", f"{seconds / baseline:.2f}") for name, seconds in parts.items()]
    print_table(("PART", "SECONDS", "RATIO"), rows)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({name: round(seconds, 2) for name, seconds in parts.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
