# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from slinky.operator import metrics

PAGE = (Path(__file__).parents[3] / "docs/operator/metrics.md").read_text()
OURS = [result for result in vars(metrics).values() if isinstance(result, MetricWrapperBase)]


@pytest.mark.parametrize("metric", OURS, ids=lambda metric: metric._name)
def test_every_metric_is_explained_with_its_labels(metric: MetricWrapperBase) -> None:
    (described,) = metric.describe()
    suffix = "_total" if described.type == "counter" else ""
    labels = ",".join(metric._labelnames)
    assert f"`{described.name}{suffix}{{{labels}}}`" in PAGE
