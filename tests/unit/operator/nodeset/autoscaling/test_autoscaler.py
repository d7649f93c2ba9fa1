# SPDX-License-Identifier: Apache-2.0
"""What other autoscalers read: the published number, and the query in the documentation."""

import re
from pathlib import Path

import msgspec
import pytest

from slinky.api.fields.autoscaling import Autoscaling
from slinky.kube import Key
from slinky.observe.metrics import REGISTRY
from slinky.operator.nodeset.autoscaling.autoscaler import Autoscaler, _condition
from slinky.operator.nodeset.autoscaling.decision import ScalingDecision, ScalingReason

PAGE = Path(__file__).parents[5] / "docs/operator/autoscaling.md"


def test_the_documented_query_finds_the_published_number() -> None:
    text = PAGE.read_text()
    query = re.search(r"query: (?P<name>\w+)\{(?P<labels>[^}]*)\}", text)
    assert query is not None
    labels = dict(re.findall(r'(\w+)="([^"]*)"', query["labels"]))
    autoscaler = Autoscaler.__new__(Autoscaler)
    autoscaler._publish(Key("slurm", "slurm-worker-burst"), 3)
    assert REGISTRY.get_sample_value(query["name"], labels) == 3
    # While Slurm is unknown there is no value.
    autoscaler._publish(Key("slurm", "slurm-worker-burst"), None)
    assert REGISTRY.get_sample_value(query["name"], labels) is None


@pytest.mark.parametrize(("unmet", "reason"), [(None, "PendingJobs"), (10.0, "PendingJobs"), (200.0, "NotFollowed")])
def test_an_autoscaler_that_does_not_follow_is_a_condition(unmet: float | None, reason: str) -> None:
    policy = msgspec.convert({"maxReplicas": 4, "mode": "External"}, Autoscaling)
    condition = _condition(policy, ScalingDecision(2, ScalingReason.PENDING_JOBS, "jobs wait"), unmet)
    assert (condition.value, condition.reason) == (reason == "PendingJobs", reason)
