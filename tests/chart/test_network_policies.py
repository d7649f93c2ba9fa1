# SPDX-License-Identifier: Apache-2.0
"""The NetworkPolicies of the charts as a matrix: who reaches which daemon at which port.

The lab's network enforces no policies, so this test evaluates the rendered ones as Kubernetes defines them.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest
import yaml
from tests.chart.helm import Helm, Objects
from tests.integration.api.conftest import Kubectl

NAME, INSTANCE, CLUSTER = "app.kubernetes.io/name", "app.kubernetes.io/instance", "slinky.slurm.net/cluster"
#: The API server writes this label to every namespace; no other value can be written.
SPACE = "kubernetes.io/metadata.name"


class Peer(NamedTuple):
    """A pod, or an address outside the pod network."""

    labels: Mapping[str, str] = {}
    namespace: str = "slurm"
    address: str = ""


def pod(name: str, instance: str = "slurm", namespace: str = "slurm", **more: str) -> Peer:
    return Peer({NAME: name, INSTANCE: instance, **more}, namespace)


PODS = {
    "slurmctld": pod("slurmctld"),
    "slurmdbd": pod("slurmdbd"),
    "slurmrestd": pod("slurmrestd"),
    "worker": pod("slurmd", "gpu", **{CLUSTER: "slurm"}),
    "login": pod("login", "slurm-login"),
    "exporter": pod("slurm-exporter"),
    "operator": pod("slurm-operator", namespace="slinky"),
    "webhook": pod("slurm-operator-webhook", namespace="slinky"),
    "bridge": pod("slurm-bridge-scheduler"),
    "admission": pod("slurm-bridge-admission"),
    "tenant": pod("web", namespace="team"),
    "tenant beside the cluster": pod("web"),
    "tenant with the labels of the operator": pod("slurm-operator", namespace="team"),
    "tenant with the labels of the bridge": pod("slurm-bridge-scheduler", namespace="team"),
    "tenant with the labels of the exporter": pod("slurm-exporter", namespace="team"),
    "tenant with the labels of a daemon": pod("slurmctld", namespace="team"),
    "worker of another cluster": pod("slurmd", "other", **{CLUSTER: "other"}),
    "host": Peer(address="192.0.2.7"),
    "other host": Peer(address="198.51.100.7"),
}
EVERYONE = frozenset(PODS)
MEMBERS = {"slurmctld", "slurmdbd", "slurmrestd", "worker", "login"}
#: Who may reach a pod at a port; nobody else may. The last column is a port that nothing serves.
MATRIX: list[tuple[str, int, frozenset[str] | set[str]]] = [
    ("slurmctld", 6817, {*MEMBERS, "bridge", "host"}),
    ("slurmctld", 22, set()),
    ("slurmdbd", 6819, {*MEMBERS, "host"}),
    ("slurmrestd", 6820, {"operator", "bridge", "exporter", "host"}),
    ("slurmrestd", 22, set()),
    ("worker", 6818, {*MEMBERS, "host"}),
    ("worker", 40000, {*MEMBERS, "host"}),  # srun and MPI choose their ports
    ("login", 22, EVERYONE),
    ("login", 40000, {*MEMBERS, "host"}),
    ("exporter", 8080, EVERYONE),
    ("exporter", 9999, set()),
    ("operator", 8080, EVERYONE),
    ("operator", 8081, EVERYONE),
    ("operator", 6060, set()),
    ("webhook", 9443, EVERYONE),
    ("webhook", 9999, set()),
    ("bridge", 8080, EVERYONE),
    ("bridge", 9999, set()),
    ("admission", 9443, EVERYONE),
    ("admission", 9999, set()),
]


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    selector = selector or {}
    wanted = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    assert all(item["operator"] == "In" for item in expressions)
    return wanted <= labels.items() and all(labels.get(item["key"]) in item["values"] for item in expressions)


def is_peer(rule: Mapping[str, Any], source: Peer, namespace: str) -> bool:
    if "ipBlock" in rule:
        return bool(source.address) and ipaddress.ip_address(source.address) in ipaddress.ip_network(
            rule["ipBlock"]["cidr"]
        )
    spaces = rule.get("namespaceSelector")
    near = source.namespace == namespace if spaces is None else selects(spaces, {SPACE: source.namespace})
    return not source.address and near and selects(rule.get("podSelector"), source.labels)


def is_allowed(policies: Iterable[Mapping[str, Any]], source: Peer, target: Peer, port: int) -> bool:
    """What Kubernetes defines: a selected pod accepts what any policy allows, another one accepts everything."""
    selecting = [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == target.namespace
        and selects(policy["spec"]["podSelector"], target.labels)
        and "Ingress" in policy["spec"]["policyTypes"]
    ]
    rules = [(rule, policy["metadata"]["namespace"]) for policy in selecting for rule in policy["spec"]["ingress"]]
    return not selecting or any(
        (not rule.get("ports") or port in {entry["port"] for entry in rule["ports"]})
        and (not rule.get("from") or any(is_peer(peer, source, namespace) for peer in rule["from"]))
        for rule, namespace in rules
    )


@pytest.fixture(scope="module")
def policies(helm: Helm) -> Objects:
    hosts = {"enabled": True, "allowFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}
    full = {"networkPolicy": hosts, "accounting": {"enabled": True}, "exporter": {"enabled": True}}
    rendered = [
        *helm.render("slurm", full),
        *helm.render("slurm-operator", {}, space="slinky"),
        *helm.render("slurm-bridge", {}),
    ]
    return [item for item in rendered if item["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize(("target", "port", "sources"), MATRIX)
def test_exactly_these_reach_a_daemon(policies: Objects, target: str, port: int, sources: frozenset[str]) -> None:
    reached = {name for name, source in PODS.items() if is_allowed(policies, source, PODS[target], port)}
    assert reached == sources


def test_the_exporter_reaches_slurmctld_if_it_reads_its_metrics(helm: Helm) -> None:
    exporter = {"enabled": True, "slurmctldMetrics": {"enabled": True}}
    values = {"networkPolicy": {"enabled": True}, "exporter": exporter, "controller": {"metrics": {"enabled": True}}}
    rules = [item for item in helm.render("slurm", values) if item["kind"] == "NetworkPolicy"]
    assert is_allowed(rules, PODS["exporter"], PODS["slurmctld"], 6817)
    assert not is_allowed(rules, pod("slurm-exporter", "other"), PODS["slurmctld"], 6817)


def test_every_component_has_a_policy(policies: Objects) -> None:
    ours = {name for name in EVERYONE if not name.startswith("tenant")} - {
        "worker of another cluster",
        "host",
        "other host",
    }
    assert {target for target, _, _ in MATRIX} == ours
    assert len(policies) == len(ours)


def test_the_api_server_accepts_every_policy(kubectl: Kubectl, space: str, policies: Objects) -> None:
    here = [{**policy, "metadata": {**policy["metadata"], "namespace": space}} for policy in policies]
    words = ("apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
    done = kubectl(*words, input=yaml.safe_dump_all(here))
    assert done.returncode == 0, done.stderr


def test_policies_of_a_cluster_are_off_by_default_and_those_of_our_processes_on(helm: Helm) -> None:
    count = {
        chart: len([item for item in helm.render(chart) if item["kind"] == "NetworkPolicy"])
        for chart in ("slurm", "slurm-operator", "slurm-bridge")
    }
    assert count == {"slurm": 0, "slurm-operator": 2, "slurm-bridge": 2}


def test_the_namespaces_of_operator_and_bridge_can_be_named(helm: Helm) -> None:
    objects = helm.render("slurm", {"networkPolicy": {"enabled": True, "namespaces": ["team"]}})
    policies = [item for item in objects if item["kind"] == "NetworkPolicy"]
    reached = {name for name, source in PODS.items() if is_allowed(policies, source, PODS["slurmrestd"], 6820)}
    ours = {"tenant with the labels of the operator", "tenant with the labels of the bridge"}
    assert reached == {"bridge", "exporter", *ours}


def test_the_doorbell_has_its_port(helm: Helm) -> None:
    objects = helm.render("slurm-bridge", {"extraConfig": {"doorbellPort": 7000}})
    ports = [
        entry for item in objects if item["kind"] == "NetworkPolicy" for entry in item["spec"]["ingress"][0]["ports"]
    ]
    assert {"protocol": "UDP", "port": 7000} in ports
