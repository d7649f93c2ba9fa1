# SPDX-License-Identifier: Apache-2.0
"""When a node that is not ready counts as unresponsive."""

import msgspec
from tests.unit.bridge.build import node

from slinky.bridge.nodes.readiness import ReadinessTracker

LOST = node(ready=False)


def test_a_node_counts_as_unresponsive_after_the_limit() -> None:
    tracker = ReadinessTracker(30)
    assert tracker.check("n1", LOST, 100) == (False, 30)
    assert tracker.check("n1", LOST, 129) == (False, 1)
    assert tracker.check("n1", LOST, 130) == (True, None)
    assert tracker.check("n1", node(), 131) == (False, None)
    assert tracker.check("n1", LOST, 132) == (False, 30)


def test_a_deleted_node_is_forgotten() -> None:
    tracker = ReadinessTracker(30)
    tracker.check("n1", LOST, 100)
    tracker.check("n1", None, 110)
    assert len(tracker) == 0
    assert tracker.check("n1", LOST, 500) == (False, 30)


def test_a_new_node_of_the_same_name_gets_the_whole_time() -> None:
    tracker = ReadinessTracker(30)
    tracker.check("n1", LOST, 100)
    second = msgspec.structs.replace(LOST, metadata=msgspec.structs.replace(LOST.metadata, uid="another"))
    assert tracker.check("n1", second, 500) == (False, 30)
