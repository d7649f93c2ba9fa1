# SPDX-License-Identifier: Apache-2.0
"""Which nodes are drained, and why: a script without an event loop. Needs SLURM_URL and SLURM_JWT."""

import os

from slinky.slurm import BlockingClient, fold

with BlockingClient(os.environ["SLURM_URL"], os.environ["SLURM_JWT"]) as slurm:
    reasons: dict[str, list[str]] = {}
    for node in slurm.nodes().items:
        if node.state.draining:
            reasons.setdefault(node.reason, []).append(node.name)
    for reason, names in reasons.items():
        print(f"{fold(names)}: {reason}")
    print(f"{sum(map(len, reasons.values()))} nodes drain")
