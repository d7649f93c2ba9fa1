# SPDX-License-Identifier: Apache-2.0
"""The state of a pod, and its priority in the queue."""

import pytest
from tests.unit.bridge.build import NOW, pod

from slinky.bridge import names
from slinky.bridge.workload import pod_state


def test_a_deletion_timestamp_includes_the_grace_period() -> None:
    leaving = pod(node="n", deleted="2026-06-01T12:00:30Z")
    assert pod_state.seconds_until_overdue(leaving, NOW, 100) == 130
    assert pod_state.seconds_until_overdue(pod(), NOW, 100) is None


@pytest.mark.parametrize("label", ["", "x7", "-7", "7 ", "\u0667"])
def test_a_label_that_is_not_a_number_is_not_a_job(label: str) -> None:
    assert pod_state.job_id(pod(labels={names.JOB_LABEL: label})) == ""


def test_pods_with_a_new_allocation_come_first_and_running_pods_last() -> None:
    most = pod("a", spec={"priority": 2**31 - 1})
    asked, queued, runs = pod("b", held=True), pod("c", job="7"), pod("d", job="7", node="n1", phase="Running")
    ending = pod("e", job="7", node="n1", deleted="2026-06-01T12:00:00Z")
    order = sorted((runs, queued, most, ending, asked), key=pod_state.queue_priority, reverse=True)
    assert [order[0], order[1], order[-1]] == [asked, most, runs]
    assert pod_state.queue_priority(queued) == pod_state.queue_priority(ending) == 0
