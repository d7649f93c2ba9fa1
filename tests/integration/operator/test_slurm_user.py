# SPDX-License-Identifier: Apache-2.0
"""The operator works with the token of a Slurm user that is not SlurmUser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.operator.stage import slurm_stage

from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm

pytestmark = pytest.mark.lab


@pytest.fixture
def administrator(own_slurm: LabSlurm) -> Iterator[str]:
    """A user with the AdminLevel that docs/security.md recommends."""
    change = ("sacctmgr", "-i", "modify", "user", "bob", "set")
    own_slurm.exec(*change, "AdminLevel=Administrator")
    yield "bob"
    own_slurm.exec(*change, "AdminLevel=None")


async def test_an_administrator_of_slurm_suffices_for_the_operator(
    plane: BarePlane, crds: None, own_slurm: LabSlurm, administrator: str, tmp_path: Path
) -> None:
    async with slurm_stage(plane, own_slurm, tmp_path, slurm_user=administrator) as stage:
        await stage.apply_workers(2)
        await stage.wait_workers(2)
        await stage.apply_workers(1)
        await stage.wait_workers(1)
        host = await stage.host(1)
        assert host is None or administrator in host.reason_set_by_user
        assert stage.undrained_deletions == []
