# SPDX-License-Identifier: Apache-2.0
"""Print the draining Slurm nodes by reason, without an event loop. Needs SLURM_URL and SLURM_JWT."""

import os

from slinky.slurm import BlockingClient, fold

with BlockingClient(os.environ["SLURM_URL"], os.environ["SLURM_JWT"]) as slurm:
    reasons: dict[str, list[str]] = {}
    for host in slurm.nodes().items:
        if host.state.draining:
            reasons.setdefault(host.reason, []).append(host.name)
    for reason, names in reasons.items():
        print(f"{fold(names)}: {reason}")
    print(f"{sum(map(len, reasons.values()))} nodes are draining")
