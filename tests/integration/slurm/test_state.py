# SPDX-License-Identifier: Apache-2.0
"""The entrypoint of the image slurmctld on a real slurmctld whose state has lost a file."""

from pathlib import Path
from signal import SIGTERM

from slinky.lab.slurm.cluster import LabSlurm

ENTRYPOINT = Path(__file__).parents[3] / "images/slurmctld/entrypoint"
STATE = "/var/lib/slurm/ctld"
#: The lab has no backup controller from which another one could take over.
RUN = """
printf '#!/bin/sh\\n' >/tmp/slinky-takeover; chmod +x /tmp/slinky-takeover
PATH=/tmp:$PATH timeout --preserve-status 30 sh -c "$1" 2>&1 || echo "ended with $?"
"""


def test_slurmctld_stops_if_its_state_has_lost_a_file(slurm: LabSlurm) -> None:
    slurm.stop("slurmctld", SIGTERM)
    try:
        slurm.exec("mv", f"{STATE}/assoc_usage", "/tmp/assoc_usage")
        output = slurm.exec("sh", "-c", RUN, "sh", ENTRYPOINT.read_text())
        assert "No Assoc usage file" in output
        assert "ended with 1" in output
    finally:
        slurm.exec("mv", "/tmp/assoc_usage", f"{STATE}/assoc_usage")
        slurm.start("slurmctld")
