# SPDX-License-Identifier: Apache-2.0
"""What the bridge says to pods, and to objects that carry its options, when they are created or changed.

Rules are small pure functions over one pod; `handlers` makes webhook endpoints of them. Nothing that another
scheduler could still do is refused: only what Slurm cannot honour, and what would let a pod pose as another's.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.label_selector import selector_matches
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import annotations, grouping, pod_resources, pod_state, policy
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.policy import PolicyError
from slinky.kube import AdmissionRequest, AdmissionResponse, Object, deny

T = TypeVar("T", bound=Object)

DEFAULT_SCHEDULER = "default-scheduler"
MUTATE, VALIDATE, OPTIONS = "/mutate--v1-pod", "/validate--v1-pod", "/validate-slurm-options"

LabelsOf = Callable[[str], Awaitable[Mapping[str, str]]]
"""The labels of a namespace."""


def is_managed(settings: BridgeSettings, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether pods of a namespace are ours by default; a selector, if there is one, decides alone."""
    if settings.managed_namespace_selector:
        return selector_matches(settings.managed_namespace_selector, labels)
    return namespace in settings.managed_namespaces


def scheduling_patch(pod: WorkloadPod, settings: BridgeSettings, *, ours: bool) -> tuple[Mapping[str, Any], ...]:
    """The patch that hands a new pod to Slurm."""
    named = pod.spec.scheduler_name == settings.scheduler_name
    if not (ours or named):
        return ()
    patch: list[Mapping[str, Any]] = []
    if pod.spec.node_name:
        patch.append({"op": "remove", "path": "/spec/nodeName"})
    if not named and pod.spec.scheduler_name in {"", DEFAULT_SCHEDULER}:
        patch.append({"op": "add", "path": "/spec/schedulerName", "value": settings.scheduler_name})
    return tuple(patch)


# --- rules: a pod in, complaints out


def _marks(pod: WorkloadPod) -> dict[str, str | None]:
    """By what the bridge knows a pod again; whoever writes it could end somebody else's job."""
    notes = (names.NODE_ANNOTATION, names.SLUID_ANNOTATION)
    found = {f"the annotation {name}": pod.metadata.annotations.get(name) or None for name in notes}
    return {f"the label {names.JOB_LABEL}": pod.metadata.labels.get(names.JOB_LABEL) or None, **found}


def _poses(pod: WorkloadPod) -> Iterable[str]:
    return [f"{mark} is set by the scheduler alone" for mark, value in _marks(pod).items() if value is not None]


def _contradicts(pod: WorkloadPod) -> Iterable[str]:
    resources = [container.resources for container in (*pod.spec.containers, *pod.spec.init_containers)]
    asked = {name for found in resources for name in pod_resources.requests_of(found)}
    if names.OPTION + "gres" in pod.metadata.annotations and any(_device(name) for name in asked):
        yield f"the annotation {names.OPTION}gres and device requests in containers exclude each other"


def _device(name: str) -> bool:
    return name.startswith(names.DEVICE_CLASS_PREFIX)


def _options(found: Object) -> Iterable[str]:
    try:
        annotations.parse_options(found.metadata.annotations)
    except OptionError as error:
        yield str(error)


def _by_policy(settings: BridgeSettings) -> Callable[[WorkloadPod], Iterable[str]]:
    """The rule that a pod which speaks for itself asks for nothing that it may not have."""

    def rule(pod: WorkloadPod) -> Iterable[str]:
        if pod.metadata.controller or len(grouping.group_keys_of(pod)) > 1:
            return
        try:
            policy.apply_policy(pod.metadata.annotations, pod, settings.policy, settings.priority_classes)
        except PolicyError as error:
            yield str(error)

    return rule


def _unknown(found: Object) -> Iterable[str]:
    return [f"{key} is no option of Slurm jobs" for key in annotations.unknown_options(found.metadata.annotations)]


ON_CREATE: tuple[Callable[[WorkloadPod], Iterable[str]], ...] = (
    _poses,
    constraints.unsupported_constraints,
    _contradicts,
    _options,
    _unknown,
)
ON_UPDATE: tuple[Callable[[WorkloadPod], Iterable[str]], ...] = (_contradicts, _options, _unknown)
ON_OWNERS: tuple[Callable[[Object], Iterable[str]], ...] = (_options, _unknown)


def violations(found: T, rules: Iterable[Callable[[T], Iterable[str]]], old: T | None = None) -> list[str]:
    """Why an object cannot be taken. What was there already must not keep it from changing, or from going."""
    told = [complaint for rule in rules for complaint in rule(found)]
    known = set(violations(old, rules)) if old is not None else set()
    return [complaint for complaint in told if complaint not in known]


def ignored_fields(pod: WorkloadPod) -> list[str]:
    """What is taken but will not be honoured."""
    told = []
    affinity = pod.spec.affinity
    for kind, terms in (
        ("nodeAffinity", affinity and affinity.node_affinity),
        ("podAffinity", affinity and affinity.pod_affinity),
        ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
    ):
        if terms and terms.preferred_during_scheduling_ignored_during_execution:
            told.append(f"preferred {kind} is ignored: Slurm chooses the nodes; see the option prefer")
    if pod.spec.topology_spread_constraints:
        told.append("topologySpreadConstraints are ignored: Slurm chooses the nodes")
    return told


def forbidden_changes(old: WorkloadPod, new: WorkloadPod) -> list[str]:
    """What others than the bridge, whose own writes are not asked about, may not change: to take the job off a pod
    that waits is the way to have it submitted again.
    """
    before, placed = (
        _marks(old),
        not pod_state.is_finished(old) and (pod_state.is_bound(old) or old.status.phase == "Running"),
    )
    changed = {mark: value for mark, value in _marks(new).items() if value != before[mark]}
    told = [f"{mark} is set by the scheduler alone" for mark, value in changed.items() if value is not None]
    return told + [f"{mark} of a running pod cannot change" for mark, value in changed.items() if not value and placed]


# --- endpoints


def handlers(
    settings: BridgeSettings, labels_of: LabelsOf
) -> dict[str, Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]]:
    """The endpoints by path, for `slinky.kube.admission.application`."""

    async def mutate(ask: AdmissionRequest) -> AdmissionResponse:
        pod = ask.new(WorkloadPod)
        ours = is_managed(settings, ask.namespace, await labels_of(ask.namespace))
        return AdmissionResponse(patch=scheduling_patch(pod, settings, ours=ours) if ask.operation == "CREATE" else ())

    async def validate(ask: AdmissionRequest) -> AdmissionResponse:
        if ask.operation == "DELETE":
            return AdmissionResponse()
        pod = ask.new(WorkloadPod)
        if pod.spec.scheduler_name != settings.scheduler_name:
            return AdmissionResponse()
        if ask.sub_resource == "resize":
            return deny("a pod cannot be resized in place: its Slurm job keeps its size")
        if ask.operation == "CREATE":
            told = violations(pod, (*ON_CREATE, _by_policy(settings)))
        else:
            old = ask.old(WorkloadPod)
            told = [*violations(pod, ON_UPDATE, old), *forbidden_changes(old, pod)]
        if told:
            return deny("; ".join(told))
        return AdmissionResponse(warnings=tuple(ignored_fields(pod)) if ask.operation == "CREATE" else ())

    async def options(ask: AdmissionRequest) -> AdmissionResponse:
        told = violations(ask.new(Object), ON_OWNERS, ask.old(Object) if ask.operation == "UPDATE" else None)
        return deny("; ".join(told)) if told else AdmissionResponse()

    return {MUTATE: mutate, VALIDATE: validate, OPTIONS: options}
