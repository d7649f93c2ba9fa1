# SPDX-License-Identifier: Apache-2.0
"""`slinky nodes` and nodes of the state FUTURE, which a NodeSet with autoscaling may have one day."""

import pytest
from tests.support.command_line import slinky_output

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient

pytestmark = pytest.mark.lab


async def test_potential_nodes_are_shown_if_asked_for(slurm: LabSlurm, client: SlurmClient) -> None:
    slurm.exec("scontrol", "create", "NodeName=later1", "State=FUTURE", "CPUs=4", "RealMemory=1000", "Feature=ext")
    environment = {"SLURM_JWT": slurm.token(), "SLINKY_SLURM_URL": slurm.url}
    try:
        shown = {
            options: slinky_output("nodes", "-o", "name", *options, **environment).split()
            for options in ((), ("--future",), ("--states", "future"))
        }
        assert "node/later1" not in shown[()]
        assert set(shown["--future",]) == {*shown[()], "node/later1"}
        assert shown["--states", "future"] == ["node/later1"]
    finally:
        await client.delete_nodes("later1")
