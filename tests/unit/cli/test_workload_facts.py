# SPDX-License-Identifier: Apache-2.0
"""What explanations read of pods, gangs and NodeSets."""

from typing import Any

import msgspec
import pytest

from slinky.bridge import names
from slinky.cli.access.workload_facts import GangPod, container_fault, group_names, pod_facts, scheduling_fault
from slinky.kube.views import PodStatus


def pod(labels: dict[str, str] | None = None, **fields: Any) -> GangPod:
    metadata = {"name": "a", "namespace": "team", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, **fields}, GangPod)


def status(*containers: dict[str, Any], **fields: Any) -> PodStatus:
    entries = [{"name": f"c{index}", "state": state} for index, state in enumerate(containers)]
    return msgspec.convert({"containerStatuses": entries, **fields}, PodStatus)


@pytest.mark.parametrize(
    ("labels", "spec", "groups"),
    [
        ({}, {}, ()),
        ({names.JOB_NAME: "j", names.JOBSET_NAME: "s"}, {}, ("s", "j")),
        ({names.POD_GROUP_LABEL: "g"}, {"schedulingGroup": {"podGroupName": "n"}}, ("n", "g")),
        ({names.LWS_NAME: "l"}, {}, ("l",)),
    ],
)
def test_the_object_that_groups_a_pod(labels: dict[str, str], spec: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert group_names(pod(labels, spec=spec)) == groups


def test_the_condition_of_the_bridge_is_read() -> None:
    condition = {"type": names.SCHEDULED, "status": "False", "reason": "GangIncomplete", "message": "1 of 2"}
    facts = pod_facts(pod({names.JOB_LABEL: "7"}, status={"conditions": [condition]}))
    assert (facts.job_id, facts.reason, facts.message) == ("7", "GangIncomplete", "1 of 2")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (status({"running": {}}), ""),
        (status({"waiting": {"reason": "ContainerCreating"}}), ""),
        (status({"waiting": {"reason": "ErrImagePull", "message": "x"}}), "container c0 waits (ErrImagePull): x"),
        (status(phase="Failed", reason="OutOfcpu", message="no room"), "OutOfcpu: no room"),
        (status(phase="Failed"), ""),
    ],
)
def test_why_a_container_does_not_start(found: PodStatus, text: str) -> None:
    assert container_fault(found) == text


def test_why_kubernetes_finds_no_node() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert scheduling_fault(status(conditions=[condition])) == "no node suits it (Unschedulable): 0/3 nodes"
    assert scheduling_fault(status(conditions=[condition | {"status": "True"}])) == ""
    assert scheduling_fault(status()) == ""
