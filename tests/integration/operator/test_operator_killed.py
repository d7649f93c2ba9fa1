# SPDX-License-Identifier: Apache-2.0
"""The operator is killed with SIGKILL after each of its writes, in Kubernetes and in Slurm: it loses nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.operator.stage import SlurmStage, slurm_stage
from tests.support.waiting import eventually

from slinky.api.nodeset import NODE_SETS
from slinky.kube import Key
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm

pytestmark = pytest.mark.lab

Summary = dict[str, Any]


async def run_life_cycle(stage: SlurmStage, expected: Sequence[Summary] = ()) -> list[Summary]:
    """A NodeSet from its creation over an update and a scale-in to its deletion; a summary of each state.

    With expected summaries, each state is waited for until its summary is the expected one.
    """
    summaries: list[Summary] = []

    async def is_expected() -> bool:
        summary = await stage.summary()
        if not expected or summary == expected[len(summaries)]:
            summaries.append(summary)
            return True
        return False

    for replicas, image in ((2, "v1"), (2, "v2"), (1, "v2")):
        await stage.apply_workers(replicas, image)
        await stage.wait_workers(replicas, image)
        await eventually(is_expected, f"the expected state with {replicas} workers of {image}")
    await stage.client.delete(NODE_SETS, Key(stage.namespace, "gpu"))

    async def is_deleted() -> bool:
        return await stage.find(NODE_SETS, "gpu") is None and not await stage.pods()

    await eventually(is_deleted, "deletion of the NodeSet and its workers")
    await eventually(is_expected, "the expected last state")
    return summaries


async def test_an_operator_that_is_killed_after_every_write_ends_in_the_same_state(
    plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path
) -> None:
    async with slurm_stage(plane, own_slurm, tmp_path) as calm:
        expected = await run_life_cycle(calm)
    async with slurm_stage(plane, own_slurm, tmp_path) as killed:
        killed.proxy.kills_operator = True
        summaries = await run_life_cycle(killed, expected)
        writes, operator = killed.proxy.writes, killed.proxy.operator
    assert summaries == expected
    assert (calm.undrained_deletions, killed.undrained_deletions) == ([], [])
    assert (calm.most_pods, killed.most_pods) == (2, 2)
    assert operator is not None
    assert operator.starts == len(writes) + 1
    for step in ("POST", "DELETE", "DRAIN", "pod-condemned", "finalizers", "comment", "/status"):
        assert any(step in write for write in writes), step
