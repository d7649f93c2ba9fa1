# SPDX-License-Identifier: Apache-2.0
"""The operator is killed with -9 after each of its writes, in Kubernetes and in Slurm: nothing is lost or doubled."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.operator.stage import Stage, stage, until

from slinky.api.nodeset import NODE_SETS
from slinky.kube import Key
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside

pytestmark = pytest.mark.lab

Picture = dict[str, Any]


async def a_life(on: Stage, expected: Sequence[Picture] = ()) -> list[Picture]:
    """A NodeSet from its creation over an update and a scale-in to its end; pictures of each, once as expected."""
    pictures: list[Picture] = []

    async def taken() -> bool:
        found = await on.picture()
        if not expected or found == expected[len(pictures)]:
            pictures.append(found)
            return True
        return False

    for replicas, image in ((2, "v1"), (2, "v2"), (1, "v2")):
        await on.workers(replicas, image)
        await until(partial(on.settled, replicas, image), f"{replicas} of {image}", 300)
        await until(taken, f"the same picture of {replicas} of {image}", 60)
    await on.client.delete(NODE_SETS, Key(on.namespace, "gpu"))

    async def gone() -> bool:
        return await on.client.find(NODE_SETS, Key(on.namespace, "gpu")) is None and not await on.pods()

    await until(gone, "the end", 120)
    await until(taken, "the same end", 60)
    return pictures


async def test_dying_after_every_single_write_changes_nothing(
    plane: PlainPlane, crds: None, alone: Beside, tmp_path: Path
) -> None:
    async with stage(plane, alone, tmp_path) as calm:
        expected = await a_life(calm)
    async with stage(plane, alone, tmp_path) as deadly:
        deadly.gates.deadly = True
        found = await a_life(deadly, expected)
        boundaries, lives = deadly.gates.boundaries, deadly.gates.lives
    assert found == expected
    assert (calm.wrongs, deadly.wrongs) == ([], [])
    assert (calm.most, deadly.most) == (2, 2)
    assert lives is not None
    assert lives.count == len(boundaries) + 1
    for step in ("POST", "DELETE", "DRAIN", "pod-condemned", "finalizers", "comment", "/status"):
        assert any(step in write for write in boundaries), step
