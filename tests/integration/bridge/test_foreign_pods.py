# SPDX-License-Identifier: Apache-2.0
"""A pod of another scheduler on a node of the bridge is reported."""

from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.waiting import eventually


async def test_a_pod_that_tolerates_the_taint_is_reported_on_the_node(stage: BridgeStage) -> None:
    fields = {"schedulerName": "another-scheduler", "tolerations": [{"operator": "Exists"}]}
    await stage.create_pod("guest", nodeName=stage.nodes[0], **fields)
    await stage.wait_event(stage.nodes[0], "ForeignPods")
    assert stage.bridge is not None
    reporter = stage.bridge.foreign_pod_reporter
    assert reporter.count() == 1
    await stage.delete_pod("guest", grace=0)
    await eventually(lambda: reporter.count() == 0, "the count of foreign pods")
