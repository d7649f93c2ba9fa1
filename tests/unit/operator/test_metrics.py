# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from slinky.kube.types import Key
from slinky.observe.metrics import REGISTRY
from slinky.operator import metrics

PAGE = (Path(__file__).parents[3] / "docs/operator/metrics.md").read_text()
OURS = [result for result in vars(metrics).values() if isinstance(result, MetricWrapperBase)]


@pytest.mark.parametrize("metric", OURS, ids=lambda metric: metric._name)
def test_every_metric_is_explained_with_its_labels(metric: MetricWrapperBase) -> None:
    (described,) = metric.describe()
    suffix = "_total" if described.type == "counter" else ""
    labels = ",".join(metric._labelnames)
    assert f"`{described.name}{suffix}{{{labels}}}`" in PAGE


NODE_SET = Key("ns", "gpu")
LABELS = {"namespace": "ns", "nodeset": "gpu"}


def rollout_start() -> float | None:
    return REGISTRY.get_sample_value("slinky_operator_rollout_start_timestamp_seconds", LABELS)


def test_a_rollout_keeps_its_start_until_every_worker_is_updated() -> None:
    published = metrics.WorkerMetrics()
    numbers = dict.fromkeys(metrics.WORKER_STATES, 4) | {"updated_replicas": 1, "node_set_hash": "r1"}
    published.publish(NODE_SET, numbers, 100.0)
    published.publish(NODE_SET, numbers, 200.0)
    assert rollout_start() == 100
    published.publish(NODE_SET, numbers | {"node_set_hash": "r2"}, 300.0)
    assert rollout_start() == 300
    published.publish(NODE_SET, numbers | {"updated_replicas": 4}, 400.0)
    assert rollout_start() == 0
    updated = REGISTRY.get_sample_value("slinky_operator_nodeset_workers", LABELS | {"state": "updated"})
    assert updated == 4
    published.forget(NODE_SET)
    assert rollout_start() is None
