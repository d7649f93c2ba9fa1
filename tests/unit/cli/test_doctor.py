# SPDX-License-Identifier: Apache-2.0
"""The doctor finds each fault of a Kubernetes, before and after an installation, and nothing in a healthy one."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.kube.scripted import Scripted, answer

from slinky.api.names.wellknown import API_VERSION
from slinky.cli.doctor import installation as views
from slinky.cli.doctor.doctor import format_findings
from slinky.cli.doctor.installation import INSTALL_RIGHTS, Installation, read_installation
from slinky.cli.doctor.installation_checks import CHECKS, check_installation, minor_version
from slinky.insight.health_checks import FindingSeverity, HealthFinding
from slinky.kube import Condition, Deployment, Key, KubeClient, Object, ObjectMeta, PersistentVolumeClaim
from slinky.kube.aggregation import ApiServiceSpec, ServiceReference
from slinky.kube.types import Owner
from slinky.kube.views import ClaimSpec, ClaimStatus, ReplicaSpec, ReplicaStatus
from slinky.operator.framework.definition_skew import DefinitionSkew

ERROR, WARNING, NOTE = FindingSeverity.ERROR, FindingSeverity.WARNING, FindingSeverity.NOTE
SERVICE = Key("slinky", "slurm-operator-webhook")


def meta(name: str, **fields: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="slurm", **fields)


def node(name: str, version: str = "v1.36.1", ready: str = "True") -> views.KubeletNode:
    status = views.KubeletStatus((Condition("Ready", ready),), views.NodeInfo(version))
    return views.KubeletNode(ObjectMeta(name=name), status)


def process(name: str, available: int = 1) -> Deployment:
    labels = {"app.kubernetes.io/name": name}
    return Deployment(meta(name, labels=labels), ReplicaSpec(1), ReplicaStatus(available_replicas=available))


def cluster_object(*conditions: Condition) -> tuple[str, views.ConditionedObject]:
    return "Controller", views.ConditionedObject(meta("slurm"), views.ConditionedStatus(conditions))


def hook(name: str = "nodeset.slinky.slurm.net", policy: str = "Fail") -> views.WebhookRegistration:
    return views.WebhookRegistration(name, views.WebhookClient(ServiceReference(*SERVICE)), policy)


def budget(*, owners: tuple[Owner, ...] = (), healthy: int = 3) -> views.DisruptionBudget:
    status = views.BudgetStatus(0, expected_pods=3, current_healthy=healthy, desired_healthy=3)
    return views.DisruptionBudget(meta("workers", owner_references=owners), status)


def policy(name: str, *ports: int, selector: dict[str, Any] | None = None) -> views.NetworkPolicy:
    ingress = ({"ports": [{"port": port} for port in ports]},) if ports else None
    return views.NetworkPolicy(meta(name), views.PolicySpec(selector, ("Ingress",), ingress))


def registration(service: ServiceReference, status: str = "True") -> views.ApiRegistration:
    conditions = (Condition("Available", status, message="no endpoints"),)
    return views.ApiRegistration(ObjectMeta(name="m"), ApiServiceSpec(service), views.ConditionedStatus(conditions))


DEFAULT_CLASS = Object(ObjectMeta(name="fast", annotations={"storageclass.kubernetes.io/is-default-class": "true"}))
READY = Condition("Ready", "True")
HEALTHY = Installation(
    version="v1.36.1", nodes=(node("a"),), skew=(), objects=(cluster_object(READY),), webhooks=(hook(),),
    processes=(process("slurm-operator"),), ready_services=frozenset({SERVICE}), storage_classes=(DEFAULT_CLASS,),
    claims=(PersistentVolumeClaim(meta("state"), status=ClaimStatus("Bound")),), has_front_proxy=True,
)  # fmt: skip
PENDING = PersistentVolumeClaim(meta("state"), ClaimSpec("", "slow", ("ReadWriteOnce",)), ClaimStatus("Pending"))

FAULTS: list[tuple[dict[str, Any], FindingSeverity, str]] = [
    ({"unreadable": ("storageclasses (forbidden)",), "storage_classes": ()}, WARNING, "Not readable: storageclasses"),
    ({"skew": None, "objects": (), "processes": ()}, NOTE, "v1.36.1 has no Slurm cluster"),
    ({"missing_rights": ("namespaces",)}, ERROR, "may not create namespaces"),
    ({"version": "v1.28.3", "nodes": ()}, ERROR, "the charts need 1.29"),
    ({"version": "v1.33.0", "nodes": ()}, WARNING, "the bridge needs 1.34"),
    ({"nodes": (node("a", ready="Unknown"),)}, ERROR, "No Kubernetes node is ready"),
    ({"nodes": (node("a"), node("b", ready="False"))}, WARNING, "1 Kubernetes node not ready: b"),
    ({"nodes": (node("a"), node("b", "v1.37.0"), node("c", "v1.32.0"))}, WARNING, "kubelet of b and c"),
    ({"skew": (DefinitionSkew("NodeSet", True, ("spec.new",)),)}, WARNING, "drops spec.new"),
    ({"processes": (process("slurm-operator", 0),)}, ERROR, "slurm/slurm-operator is available"),
    ({"processes": ()}, ERROR, "no Deployment of the operator"),
    ({"ready_services": frozenset()}, ERROR, "slinky/slurm-operator-webhook of 1 webhook has no ready pod"),
    (
        {"objects": (cluster_object(Condition("Degraded", "True", "PodCrashed", "It ended.\x1b[2J"), READY),)},
        ERROR,
        "Controller slurm/slurm is degraded: PodCrashed: It ended.\\x1b[2J.",
    ),
    (
        {"objects": (cluster_object(Condition("Ready", "False", "Starting", "It starts")),)},
        WARNING,
        "Controller slurm/slurm is not ready: Starting: It starts.",
    ),
    ({"claims": (PENDING,)}, ERROR, "slurm/state of the StorageClass slow has no volume (ReadWriteOnce)"),
    ({"budgets": (budget(),)}, WARNING, "slurm/workers allows no eviction"),
    ({"policies": (policy("deny"), policy("other", 443))}, WARNING, "NetworkPolicy deny isolates"),
    (
        {"external_metrics": registration(ServiceReference("slurm", "slurm-operator"), "False")},
        ERROR,
        "slurm/slurm-operator serves, do not answer: no endpoints",
    ),
    ({"external_metrics": registration(ServiceReference("keda", "keda"))}, NOTE, "are served by keda/keda"),
    ({"has_front_proxy": False}, NOTE, "has no front proxy"),
]


@pytest.mark.parametrize(("fields", "severity", "words"), FAULTS, ids=[fault[2] for fault in FAULTS])
def test_a_fault_is_found(fields: dict[str, Any], severity: FindingSeverity, words: str) -> None:
    findings = check_installation(replace(HEALTHY, **fields))
    assert [(finding.severity, words in finding.sentence) for finding in findings] == [(severity, True)], findings
    assert findings[0].fix.endswith(".")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"budgets": (budget(healthy=2), budget(owners=(Owner(API_VERSION, "NodeSet", "w", "1"),)))},
        {"policies": (policy("deny"), policy("slurm", 6817))},
        {"policies": (policy("deny", selector={"matchLabels": {"app": "x"}}),)},
        {"webhooks": (hook(policy="Ignore"),), "ready_services": frozenset()},
        {"storage_classes": ()},
        {"has_front_proxy": None},
        {"version": "unknown"},
    ],
)
def test_what_is_healthy_has_no_findings(fields: dict[str, Any]) -> None:
    assert check_installation(replace(HEALTHY, **fields)) == ()
    assert len(CHECKS) <= len(FAULTS)


def test_before_an_installation_a_missing_default_class_is_named() -> None:
    findings = check_installation(replace(HEALTHY, skew=None, objects=(), processes=(), storage_classes=()))
    assert [finding.severity for finding in findings] == [WARNING, NOTE]
    assert "there are: none" in findings[0].sentence


@pytest.mark.parametrize(("text", "minor"), [("v1.36.4+k3s1", 36), ("1.29", 29), ("v2.1", None), ("", None)])
def test_minor_versions(text: str, minor: int | None) -> None:
    assert minor_version(text) == minor


def test_findings_are_lines_without_control_characters() -> None:
    finding = HealthFinding(ERROR, "x", "It is\nbad\x1b[2J.", "Fix it.")
    assert format_findings([finding]) == "error: It is\\x0abad\\x1b[2J. Fix it."
    assert format_findings([]) == "no problem found"


async def test_a_reader_with_few_rights_before_an_installation() -> None:
    denied = answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "nodes is forbidden"})
    missing = answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
    reviews = [answer(201, {"status": {"allowed": resource != "namespaces"}}) for _, resource in INSTALL_RIGHTS]
    version = answer(200, {"gitVersion": "v1.36.1"})
    transport = Scripted([version, missing, denied, *reviews, denied, missing, denied])
    found = await read_installation(KubeClient(transport), "")
    assert (found.is_installed, found.missing_rights, found.has_front_proxy) == (False, ("namespaces",), None)
    assert found.unreadable[0] == "nodes (nodes is forbidden)"
    assert [text.partition(" (")[0] for text in found.unreadable[1:]] == [
        "storageclasses",
        f"the ConfigMap {views.FRONT_PROXY}",
    ]
