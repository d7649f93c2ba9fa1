# SPDX-License-Identifier: Apache-2.0
"""Checks of a Kubernetes, before an installation and after it, each finding with its fix. Pure."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from slinky.api.fields.conditions import DEGRADED, READY
from slinky.api.names.wellknown import API_VERSION
from slinky.cli.doctor.installation import Installation, NetworkPolicy
from slinky.insight.health_checks import FindingSeverity, HealthFinding
from slinky.insight.plain_text import counted, listed, plain
from slinky.kube import Key
from slinky.kube.types import Condition

#: The oldest minor versions of Kubernetes for the operator and for the bridge.
OPERATOR_MINOR, BRIDGE_MINOR = 29, 34
#: A kubelet may be this many minor versions older than the API server.
KUBELET_SKEW = 3
#: The ports of slurmctld, slurmd, slurmdbd and slurmrestd.
SLURM_PORTS = range(6817, 6821)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

Check = Callable[[Installation], Iterator[HealthFinding]]


def check_installation(installation: Installation) -> tuple[HealthFinding, ...]:
    """Everything that is found, errors first."""
    findings = [finding for check in CHECKS for finding in check(installation)]
    order = list(FindingSeverity)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def _finding(severity: FindingSeverity, check: str, sentence: str, fix: str) -> HealthFinding:
    return HealthFinding(severity, check, sentence, fix)


def minor_version(text: str) -> int | None:
    """The minor version in a text such as `v1.36.4+k3s1`; None for another form."""
    match = re.match(r"v?1\.(\d{1,4})", text)
    return int(match[1]) if match else None


def _readable(installation: Installation) -> Iterator[HealthFinding]:
    for text in installation.unreadable:
        yield _finding(
            FindingSeverity.WARNING, "rights", f"Not readable: {text}.",
            "What depends on it was not checked; run the command with an account that has this right.",
        )  # fmt: skip


def _installed(installation: Installation) -> Iterator[HealthFinding]:
    version = plain(installation.version, 40)
    if not installation.is_installed:
        yield _finding(
            FindingSeverity.NOTE, "installation",
            f"Kubernetes {version} has no Slurm cluster: the operator's kinds are not installed.",
            "Install the charts slurm-operator-crds, slurm-operator and slurm (docs/start.md).",
        )  # fmt: skip
    if installation.missing_rights:
        yield _finding(
            FindingSeverity.ERROR, "rights",
            f"You may not create {listed(installation.missing_rights, 20)}, which an installation needs.",
            "Ask an administrator of the Kubernetes to install the charts, or for these rights.",
        )  # fmt: skip


def _version(installation: Installation) -> Iterator[HealthFinding]:
    minor = minor_version(installation.version)
    if minor is not None and minor < OPERATOR_MINOR:
        yield _finding(
            FindingSeverity.ERROR, "version",
            f"Kubernetes is {plain(installation.version, 40)}, and the charts need 1.{OPERATOR_MINOR} or newer.",
            "Upgrade Kubernetes.",
        )  # fmt: skip
    elif minor is not None and minor < BRIDGE_MINOR:
        yield _finding(
            FindingSeverity.WARNING, "version",
            f"Kubernetes is {plain(installation.version, 40)}, and the bridge needs 1.{BRIDGE_MINOR} or newer.",
            "Upgrade Kubernetes before you install slurm-bridge.",
        )  # fmt: skip


def _kubelets(installation: Installation) -> Iterator[HealthFinding]:
    not_ready = sorted(node.metadata.name for node in installation.nodes if not _is_true(node.status.conditions, READY))
    if installation.nodes and len(not_ready) == len(installation.nodes):
        yield _finding(
            FindingSeverity.ERROR, "nodes", "No Kubernetes node is ready.", "See `kubectl describe nodes`."
        )  # fmt: skip
    elif not_ready:
        yield _finding(
            FindingSeverity.WARNING, "nodes",
            f"{counted(len(not_ready), 'Kubernetes node')} not ready: {listed(not_ready)}.",
            f"See `kubectl describe node {plain(not_ready[0], 80)}`.",
        )  # fmt: skip
    server = minor_version(installation.version)
    if server is None:
        return
    minors = {node.metadata.name: minor_version(node.status.node_info.kubelet_version) for node in installation.nodes}
    skewed = sorted(
        name for name, minor in minors.items() if minor is not None and not server - KUBELET_SKEW <= minor <= server
    )
    if skewed:
        yield _finding(
            FindingSeverity.WARNING, "nodes",
            f"The kubelet of {listed(skewed)} is newer than the API server, or more than {KUBELET_SKEW} minors older.",
            "Upgrade the API server first, then the kubelets.",
        )  # fmt: skip


def _definitions(installation: Installation) -> Iterator[HealthFinding]:
    for skew in installation.skew or ():
        for sentence in skew.sentences():
            text, _, step = sentence.partition("; ")
            yield _finding(
                FindingSeverity.WARNING, "definitions", f"{text}.", f"{step[:1].upper()}{step[1:]}" or "Upgrade it."
            )  # fmt: skip


def _processes(installation: Installation) -> Iterator[HealthFinding]:
    for process in installation.processes:
        if process.spec.replicas and not process.status.available_replicas:
            key = process.metadata.key
            yield _finding(
                FindingSeverity.ERROR, "processes", f"No pod of the Deployment {key} is available.",
                f"See `kubectl -n {key.namespace} describe deployment {key.name}` and the log of its pods.",
            )  # fmt: skip
    names = {process.metadata.labels.get("app.kubernetes.io/name", "") for process in installation.processes}
    if (
        installation.objects
        and installation.is_installed
        and "slurm-operator" not in names
        and not _hides(installation, "deployments")
    ):
        yield _finding(
            FindingSeverity.ERROR, "processes",
            "There are Slurm clusters, but no Deployment of the operator.", "Install the chart slurm-operator.",
        )  # fmt: skip


def _webhooks(installation: Installation) -> Iterator[HealthFinding]:
    if _hides(installation, "endpointslices"):
        return
    silent: dict[Key, list[str]] = {}
    for hook in installation.webhooks:
        service = hook.client_config.service
        if hook.failure_policy == "Fail" and service is not None:
            key = Key(service.namespace, service.name)
            if key not in installation.ready_services:
                silent.setdefault(key, []).append(hook.name)
    for key, hooks in sorted(silent.items()):
        yield _finding(
            FindingSeverity.ERROR, "webhooks",
            f"The Service {key} of {counted(len(hooks), 'webhook')} has no ready pod, so that changes are refused: "
            f"{listed(sorted(hooks))}.",
            f"See `kubectl -n {key.namespace} get pods`; without the webhook, delete its configuration.",
        )  # fmt: skip


def _objects(installation: Installation) -> Iterator[HealthFinding]:
    for kind, item in installation.objects:
        conditions = {condition.type: condition for condition in item.status.conditions}
        degraded, ready = conditions.get(DEGRADED), conditions.get(READY)
        if degraded is not None and degraded.status == "True":
            yield _object_finding(
                FindingSeverity.ERROR, f"{kind} {item.metadata.key} is degraded", degraded, kind, item.key
            )
        elif ready is not None and ready.status == "False":
            yield _object_finding(
                FindingSeverity.WARNING, f"{kind} {item.metadata.key} is not ready", ready, kind, item.key
            )


def _object_finding(severity: FindingSeverity, text: str, condition: Condition, kind: str, key: Key) -> HealthFinding:
    why = plain(f"{condition.reason}: {condition.message}".rstrip(". "), 300)
    fix = f"See `kubectl -n {key.namespace} describe {kind.lower()} {key.name}`."
    return _finding(severity, "objects", f"The {text}: {why}.", fix)


def _storage(installation: Installation) -> Iterator[HealthFinding]:
    if not _hides(installation, "storageclasses") and not any(
        item.metadata.annotations.get(DEFAULT_CLASS) == "true" for item in installation.storage_classes
    ):
        names = listed(sorted(item.metadata.name for item in installation.storage_classes)) or "none"
        if not installation.is_installed:
            yield _finding(
                FindingSeverity.WARNING, "storage",
                f"No StorageClass is the default one (there are: {names}); slurmctld needs a volume for its state.",
                "Set controller.persistence.storageClassName or existingClaim of the chart slurm.",
            )  # fmt: skip
    for claim in installation.claims:
        if claim.status.phase == "Pending":
            key, wanted = claim.metadata.key, claim.spec.storage_class_name
            of_class = f" of the StorageClass {plain(wanted, 80)}" if wanted else ""
            yield _finding(
                FindingSeverity.ERROR, "storage",
                f"The PersistentVolumeClaim {key}{of_class} has no volume ({', '.join(claim.spec.access_modes)}).",
                f"See `kubectl -n {key.namespace} describe pvc {key.name}`; several slurmctld need a class with "
                "ReadWriteMany.",
            )  # fmt: skip


def _budgets(installation: Installation) -> Iterator[HealthFinding]:
    for budget in installation.budgets:
        status, key = budget.status, budget.metadata.key
        is_ours = any(owner.api_version == API_VERSION for owner in budget.metadata.owner_references)
        blocks = status.expected_pods and not status.disruptions_allowed
        if blocks and not is_ours and status.current_healthy >= status.desired_healthy:
            yield _finding(
                FindingSeverity.WARNING, "disruptions",
                f"The PodDisruptionBudget {key} allows no eviction although its pods are healthy: `kubectl drain` "
                "never ends.",
                "Let it allow at least one disruption; the operator drains workers in Slurm before they are evicted.",
            )  # fmt: skip


def _network(installation: Installation) -> Iterator[HealthFinding]:
    for namespace in sorted({policy.metadata.namespace for policy in installation.policies}):
        policies = [policy for policy in installation.policies if policy.metadata.namespace == namespace]
        isolating = [policy.metadata.name for policy in policies if _isolates_all(policy)]
        if isolating and not any(_opens_slurm_port(policy) for policy in policies):
            yield _finding(
                FindingSeverity.WARNING, "network",
                f"The NetworkPolicy {listed(sorted(isolating))} isolates all pods of the namespace {namespace}, and no "
                "other one opens the ports of Slurm.",
                "Set networkPolicies.enabled in the chart slurm, or allow TCP 6817 to 6820 between these pods.",
            )  # fmt: skip


def _external_metrics(installation: Installation) -> Iterator[HealthFinding]:
    registered = installation.external_metrics
    if registered is not None:
        owner = registered.spec.service
        is_ours = owner is not None and any(
            (process.metadata.namespace, process.metadata.name) == (owner.namespace, owner.name)
            for process in installation.processes
        )
        available = next((c for c in registered.status.conditions if c.type == "Available"), None)
        where = f"{plain(owner.namespace, 80)}/{plain(owner.name, 80)}" if owner else "the API server"
        if available is not None and available.status == "False":
            yield _finding(
                FindingSeverity.ERROR if is_ours else FindingSeverity.WARNING, "external metrics",
                f"External metrics, which {where} serves, do not answer: {plain(available.message, 200)}.",
                "Check the pods behind this Service; HorizontalPodAutoscalers of external metrics stand still.",
            )  # fmt: skip
        if not is_ours:
            yield _finding(
                FindingSeverity.NOTE, "external metrics", f"External metrics are served by {where}.",
                "Leave webhook.externalMetrics.enabled of the chart slurm-operator off; use Prometheus instead.",
            )  # fmt: skip
    if installation.has_front_proxy is False:
        yield _finding(
            FindingSeverity.NOTE, "external metrics",
            "The API server has no front proxy, so that aggregated APIs cannot tell who sends a request.",
            "Start kube-apiserver with --requestheader-client-ca-file before you use webhook.externalMetrics.",
        )  # fmt: skip


def _isolates_all(policy: NetworkPolicy) -> bool:
    spec = policy.spec
    return not spec.pod_selector and "Ingress" in (spec.policy_types or ("Ingress",)) and not spec.ingress


def _opens_slurm_port(policy: NetworkPolicy) -> bool:
    rules = policy.spec.ingress or ()
    ports: list[dict[str, Any]] = [port for rule in rules for port in rule.get("ports") or [{}]]
    return any(not port.get("port") or port["port"] in SLURM_PORTS for port in ports)


def _is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def _hides(installation: Installation, plural: str) -> bool:
    """Whether a list could not be read, so that its emptiness says nothing."""
    return any(text.startswith(plural) for text in installation.unreadable)


CHECKS: tuple[Check, ...] = (
    _readable,
    _installed,
    _version,
    _kubelets,
    _definitions,
    _processes,
    _webhooks,
    _objects,
    _storage,
    _budgets,
    _network,
    _external_metrics,
)
