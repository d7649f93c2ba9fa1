# SPDX-License-Identifier: Apache-2.0
"""What other autoscalers read: the published number, and the query in the documentation."""

import re
from pathlib import Path

from slinky.kube import Key
from slinky.observe.metrics import REGISTRY
from slinky.operator.nodeset.autoscaling.autoscaler import Autoscaler

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
