# SPDX-License-Identifier: Apache-2.0
"""The outcome of the pods of a job, as accounting records it."""

from typing import Any

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge.lifecycle.release import outcome
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.views import WorkloadPod


def ended(
    phase: str, *codes: int, name: str = "p", deleted: bool = False, why: str = "", init: int | None = None
) -> WorkloadPod:
    """A pod whose containers ended like this; `why` is the reason of the last of them."""
    status: dict[str, Any] = {"containerStatuses": [{"state": {"terminated": {"exitCode": code}}} for code in codes]}
    if codes:
        status["containerStatuses"][-1]["state"]["terminated"]["reason"] = why
    else:
        status["reason"] = why
    if init is not None:
        status["initContainerStatuses"] = [{"state": {"terminated": {"exitCode": init, "reason": "Error"}}}]
    more = {"deleted": "2026-01-01T00:00:00Z"} if deleted else {}
    return pod(name, phase=phase, status=status, held=True, **more)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([ended("Succeeded", 0), ended("Succeeded", 0)], PodOutcome("Succeeded")),
        ([ended("Succeeded", 0), ended("Failed", 3, name="b", why="Error")], PodOutcome("Failed", 3, "b: Error")),
        ([ended("Failed", 0, 137, why="OOMKilled")], PodOutcome("Failed", 137, "p: OOMKilled")),
        ([ended("Failed", why="Evicted")], PodOutcome("Failed", 1, "p: Evicted")),
        ([ended("Failed")], PodOutcome("Failed", 1, "p")),
        ([ended("Failed", init=4)], PodOutcome("Failed", 4, "p: Error")),
        ([ended("Succeeded", 0, init=0)], PodOutcome("Succeeded")),
        ([ended("Running")], PodOutcome("Deleted")),
        ([ended("Failed", 137, deleted=True)], PodOutcome("Deleted", 137)),
        # The second was only stopped because the first had failed: its code is not the reason.
        ([ended("Failed", 3, name="a"), ended("Failed", 137, name="b", deleted=True)], PodOutcome("Failed", 3, "a")),
    ],
)
def test_the_outcome_of_pods_is_the_worst_that_happened_to_any_of_them(
    pods: list[WorkloadPod], expected: PodOutcome
) -> None:
    assert outcome.summarize(pods) == expected


def test_the_accounting_comment_names_the_pod_and_the_reason() -> None:
    assert str(PodOutcome("Failed", 137, "w-3: OOMKilled")) == "pods Failed, exit code 137 (w-3: OOMKilled)"
    assert str(PodOutcome("Succeeded")) == "pods Succeeded, exit code 0"


@pytest.mark.parametrize(
    ("pods", "witness"),
    [
        ([ended("Succeeded", 0, name="a"), ended("Succeeded", 0, name="b")], "a"),
        ([ended("Succeeded", 0, name="a"), ended("Failed", 3, name="b")], "b"),
        ([ended("Succeeded", 0, name="a", deleted=True), ended("Succeeded", 0, name="b")], "b"),
        ([ended("Succeeded", 0, name="a"), pod("b", phase="Failed")], "a"),  # b was released earlier
        ([ended("Succeeded", 0, name="a", deleted=True)], None),
        ([ended("Failed", 137, name="a", deleted=True)], None),
    ],
)
def test_the_pod_that_decides_the_outcome_waits_until_it_is_recorded(
    pods: list[WorkloadPod], witness: str | None
) -> None:
    waiting = outcome.find_witness(pods)
    assert (waiting.metadata.name if waiting else None) == witness
