# SPDX-License-Identifier: Apache-2.0
"""Values of external metrics: what an autoscaler gets, and that it never gets 0 for something unknown."""

from typing import Any

import msgspec
import pytest

from slinky.api.nodeset import NodeSet
from slinky.webhook.external_metrics import METRICS, UnknownValueError, metric_values, parse_selector, resource_list

NOW = "2026-11-16T12:00:00Z"
POLICY = {"mode": "External", "maxReplicas": 8}
DECIDED = {"autoscaling": {"nextReplicas": 3, "reason": "PendingJobs"}, "readyReplicas": 1, "slurmIdle": 1}


def node_set(name: str = "burst", autoscaling: Any = POLICY, status: Any = DECIDED, cluster: str = "slurm") -> NodeSet:
    spec = {"controllerRef": {"name": cluster}, **({"autoscaling": autoscaling} if autoscaling else {})}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, NodeSet)


def values(metric: str, *node_sets: NodeSet, **selector: str) -> dict[str, str]:
    items = metric_values(metric, node_sets, selector, NOW)["items"]
    return {item["metricLabels"]["nodeset"]: item["value"] for item in items}


def test_an_autoscaler_gets_the_number_of_the_latest_decision() -> None:
    both = node_set(), node_set("other", status={"autoscaling": {"nextReplicas": 0, "reason": "Steady"}})
    assert values("slurm_workers_wanted", *both) == {"burst": "3", "other": "0"}
    assert values("slurm_workers_wanted", *both, nodeset="other") == {"other": "0"}
    assert values("slurm_workers_wanted", *both, cluster="slurm", nodeset="burst") == {"burst": "3"}
    assert values("slurm_workers_idle", *both) == {"burst": "1", "other": "0"}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (node_set(status={}), "no spec.autoscaling"),
        (node_set(autoscaling=None), "no spec.autoscaling"),
        (
            node_set(status={"autoscaling": {"reason": "SlurmUnknown", "message": "Slurm does not respond"}}),
            "not known",
        ),
        (node_set(status={"autoscaling": {}}), "not known"),
    ],
)
def test_what_is_not_known_is_an_error_and_never_zero(item: NodeSet, text: str) -> None:
    with pytest.raises(UnknownValueError, match=text):
        values("slurm_workers_wanted", item, node_set("other"))


def test_a_set_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UnknownValueError, match="nodeset=burts"):
        values("slurm_workers_wanted", node_set(), nodeset="burts")


@pytest.mark.parametrize("text", ["nodeset!=a", "nodeset in (a,b)", "nodeset", "!nodeset"])
def test_other_selectors_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a selector"):
        parse_selector(text)


def test_equalities_are_read() -> None:
    assert parse_selector("") == {}
    assert parse_selector(" nodeset == a, cluster=b,") == {"nodeset": "a", "cluster": "b"}


def test_every_metric_is_a_resource() -> None:
    assert [item["name"] for item in resource_list()["resources"]] == list(METRICS)


def pending(name: str, jobs: int, cluster: str = "slurm", **policy: Any) -> NodeSet:
    status = {"autoscaling": {"reason": "Steady", "partitions": [{"name": "burst", "jobs": jobs, "largestJob": 4}]}}
    return node_set(name, {**POLICY, **policy}, status, cluster)


def test_a_partition_of_several_sets_has_one_value_since_an_autoscaler_adds_values_up() -> None:
    sets = [pending("a", 7), pending("b", 7), pending("c", 9, cluster="other"), pending("d", 5, mode="Active")]
    items = metric_values("slurm_partition_jobs_pending", sets, {"partition": "burst"}, NOW)["items"]
    assert [(item["metricLabels"]["cluster"], item["value"]) for item in items] == [("slurm", "7"), ("other", "9")]
    selector = {"partition": "burst", "cluster": "slurm"}
    items = metric_values("slurm_partition_jobs_pending_maxnodecount_total", sets, selector, NOW)["items"]
    assert [item["value"] for item in items] == ["4"]


def test_a_partition_of_an_unknown_cluster_has_an_error_and_not_zero() -> None:
    blind = node_set(status={"autoscaling": {"reason": "SlurmUnknown", "message": "Slurm does not respond"}})
    with pytest.raises(UnknownValueError, match="not known"):
        metric_values("slurm_partition_jobs_pending", [blind], {"partition": "burst"}, NOW)
    with pytest.raises(UnknownValueError, match="partition=other"):
        metric_values("slurm_partition_jobs_pending", [pending("a", 7)], {"partition": "other"}, NOW)
