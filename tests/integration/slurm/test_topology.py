# SPDX-License-Identifier: Apache-2.0
"""A topology file that names hosts which Slurm does not have yet, as a tool that discovers networks may write it."""

from collections.abc import Iterator

import pytest
from tests.support.slurm_settings import slurm_settings

from slinky.lab.slurm.cluster import LabSlurm
from slinky.lab.slurm.conf import LEAVES
from slinky.slurm.conf.topology import Block, Switch, Topology, render_topologies

LATE = "late-1"
#: Hosts of the shared Slurm are at the switches of its own file, so that these are here too.
SWITCHES = (
    Switch("root", children=f"leaf[1-{LEAVES}],late"),
    *(Switch(f"leaf{number}") for number in range(1, LEAVES + 1)),
    Switch("late", f"{LATE},gone"),
)
FILE = render_topologies(
    [
        Topology("default", True, SWITCHES),
        Topology("nvl", blocks=(Block("b1", f"{LATE},gone"), Block("b2", "never")), block_sizes=(1,)),
    ]
)


@pytest.fixture
def settings(slurm: LabSlurm) -> Iterator[None]:
    """A slurmctld with the file, and afterwards one without the host that the test creates."""
    with slurm_settings(slurm, {}, files={"topology.yaml": FILE}):
        yield
        slurm.exec("scontrol", "delete", f"nodename={LATE}")


@pytest.mark.usefixtures("settings")
def test_unknown_hosts_in_a_topology_do_not_stop_slurmctld_and_get_their_place_at_a_reconfigure(
    slurm: LabSlurm,
) -> None:
    def members(topology: str, unit: str) -> str:
        text = slurm.exec("scontrol", "show", "topology", topology, f"unit={unit}")
        return text.partition("Nodes=")[2].split(" ")[0].strip()

    slurm.exec("scontrol", "create", f"nodename={LATE}", "state=external")
    assert LATE not in members("default", "late")
    slurm.exec("scontrol", "reconfigure")
    assert LATE in members("default", "late")
    assert LATE in members("nvl", "b1")
