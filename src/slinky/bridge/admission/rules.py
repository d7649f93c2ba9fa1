# SPDX-License-Identifier: Apache-2.0
"""Admission rules for pods and for objects with job options.

A rule is a pure function from an object to violations; `handlers` turns the rules into webhook endpoints. The rules
reject only what Slurm cannot satisfy, invalid options, and changes by which a pod could take over another pod's job.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.feasibility import constraints
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import annotations, grouping, pod_resources, pod_state, policy
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.policy import PolicyError
from slinky.kube import AdmissionRequest, AdmissionResponse, Object, deny
from slinky.kube.label_selector import selector_matches

T = TypeVar("T", bound=Object)

DEFAULT_SCHEDULER = "default-scheduler"
MUTATE, VALIDATE, OPTIONS = "/mutate--v1-pod", "/validate--v1-pod", "/validate-slurm-options"

LabelsOf = Callable[[str], Awaitable[Mapping[str, str]]]
"""The labels of a namespace."""


def is_managed(settings: BridgeSettings, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether admission assigns the pods of a namespace to the bridge. A selector takes precedence over the names."""
    if settings.managed_namespace_selector:
        return selector_matches(settings.managed_namespace_selector, labels)
    return namespace in settings.managed_namespaces


def scheduling_patch(pod: WorkloadPod, settings: BridgeSettings, *, managed: bool) -> tuple[Mapping[str, Any], ...]:
    """The patch that assigns a new pod to the bridge."""
    is_assigned = pod.spec.scheduler_name == settings.scheduler_name
    if not (managed or is_assigned):
        return ()
    patch: list[Mapping[str, Any]] = []
    if pod.spec.node_name:
        patch.append({"op": "remove", "path": "/spec/nodeName"})
    if not is_assigned and pod.spec.scheduler_name in {"", DEFAULT_SCHEDULER}:
        patch.append({"op": "add", "path": "/spec/schedulerName", "value": settings.scheduler_name})
    return tuple(patch)


# --- rules: from an object to violations


def _job_metadata(pod: WorkloadPod) -> dict[str, str | None]:
    """The metadata that links a pod to its job. With a forged value, the end of the pod would end another job."""
    keys = (names.NODE_ANNOTATION, names.SLUID_ANNOTATION)
    values = {f"the annotation {key}": pod.metadata.annotations.get(key) or None for key in keys}
    return {f"the label {names.JOB_LABEL}": pod.metadata.labels.get(names.JOB_LABEL) or None, **values}


def _sets_job_metadata(pod: WorkloadPod) -> Iterable[str]:
    return [f"only the scheduler may set {key}" for key, value in _job_metadata(pod).items() if value is not None]


def _combines_gres_and_devices(pod: WorkloadPod) -> Iterable[str]:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    requested = {name for container in containers for name in pod_resources.requests_of(container.resources)}
    has_devices = any(name.startswith(names.DEVICE_CLASS_PREFIX) for name in requested)
    if "gres" in annotations.option_values(pod.metadata.annotations) and has_devices:
        yield f"the annotation {names.OPTION}gres cannot be combined with device requests of containers"


def _has_invalid_options(item: Object) -> Iterable[str]:
    try:
        annotations.parse_options(item.metadata.annotations)
    except OptionError as error:
        yield str(error)


def _policy_rule(settings: BridgeSettings) -> Callable[[WorkloadPod], Iterable[str]]:
    """The rule that a pod without an owner or group may only have options that the policy allows."""

    def rule(pod: WorkloadPod) -> Iterable[str]:
        if pod.metadata.controller or len(grouping.group_keys_of(pod)) > 1:
            return
        try:
            policy.apply_policy(pod.metadata.annotations, pod, settings.policy, settings.priority_classes)
        except PolicyError as error:
            yield str(error)

    return rule


def _has_unknown_options(item: Object) -> Iterable[str]:
    return annotations.unknown_options(item.metadata.annotations)


ON_CREATE: tuple[Callable[[WorkloadPod], Iterable[str]], ...] = (
    _sets_job_metadata,
    constraints.unsupported_constraints,
    _combines_gres_and_devices,
    _has_invalid_options,
    _has_unknown_options,
)
ON_UPDATE: tuple[Callable[[WorkloadPod], Iterable[str]], ...] = (
    _combines_gres_and_devices,
    _has_invalid_options,
    _has_unknown_options,
)
ON_OWNERS: tuple[Callable[[Object], Iterable[str]], ...] = (_has_invalid_options, _has_unknown_options)


def violations(item: T, rules: Iterable[Callable[[T], Iterable[str]]], old: T | None = None) -> list[str]:
    """The violations of an object that `old` did not have: existing ones must not block updates and deletion."""
    current = [violation for rule in rules for violation in rule(item)]
    previous = set(violations(old, rules)) if old is not None else set()
    return [violation for violation in current if violation not in previous]


def old_option_warnings(item: Object, old: Object | None = None) -> list[str]:
    """Warnings about options with the old prefix that `old` did not have."""
    before = annotations.old_options(old.metadata.annotations) if old is not None else []
    return [text for text in annotations.old_options(item.metadata.annotations) if text not in before]


def ignored_fields(pod: WorkloadPod) -> list[str]:
    """Warnings about fields that are accepted but have no effect."""
    warnings = []
    affinity = pod.spec.affinity
    for kind, terms in (
        ("nodeAffinity", affinity and affinity.node_affinity),
        ("podAffinity", affinity and affinity.pod_affinity),
        ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
    ):
        if terms and terms.preferred_during_scheduling_ignored_during_execution:
            warnings.append(f"preferred {kind} is ignored, because Slurm chooses the nodes; see the option prefer")
    if pod.spec.topology_spread_constraints:
        warnings.append("topologySpreadConstraints are ignored, because Slurm chooses the nodes")
    return warnings


def forbidden_changes(old: WorkloadPod, new: WorkloadPod) -> list[str]:
    """Changes of the job metadata that only the bridge may make; its own requests do not reach the webhook.

    Users may remove the metadata of a pending pod: the pod is then submitted again.
    """
    before = _job_metadata(old)
    changed = {key: value for key, value in _job_metadata(new).items() if value != before[key]}
    is_running = not pod_state.is_finished(old) and (pod_state.is_bound(old) or old.status.phase == "Running")
    set_by_user = [f"only the scheduler may set {key}" for key, value in changed.items() if value is not None]
    removed = [f"{key} of a running pod cannot be removed" for key, value in changed.items() if not value]
    return set_by_user + (removed if is_running else [])


# --- endpoints


def handlers(
    settings: BridgeSettings, labels_of: LabelsOf
) -> dict[str, Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]]:
    """The endpoints by path, for `slinky.kube.admission.application`."""

    async def mutate(request: AdmissionRequest) -> AdmissionResponse:
        pod = request.new(WorkloadPod)
        managed = is_managed(settings, request.namespace, await labels_of(request.namespace))
        if request.operation != "CREATE":
            return AdmissionResponse()
        return AdmissionResponse(patch=scheduling_patch(pod, settings, managed=managed))

    async def validate(request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "DELETE":
            return AdmissionResponse()
        pod = request.new(WorkloadPod)
        if pod.spec.scheduler_name != settings.scheduler_name:
            return AdmissionResponse()
        if request.sub_resource == "resize":
            return deny("a pod cannot be resized in place, because the size of its Slurm job cannot change")
        if request.operation == "CREATE":
            problems = violations(pod, (*ON_CREATE, _policy_rule(settings)))
            warnings = [*ignored_fields(pod), *old_option_warnings(pod)]
        else:
            old = request.old(WorkloadPod)
            problems = [*violations(pod, (*ON_UPDATE, _policy_rule(settings)), old), *forbidden_changes(old, pod)]
            warnings = old_option_warnings(pod, old)
        return deny("; ".join(problems)) if problems else AdmissionResponse(warnings=tuple(warnings))

    async def validate_options(request: AdmissionRequest) -> AdmissionResponse:
        old = request.old(Object) if request.operation == "UPDATE" else None
        item = request.new(Object)
        if problems := violations(item, ON_OWNERS, old):
            return deny("; ".join(problems))
        return AdmissionResponse(warnings=tuple(old_option_warnings(item, old)))

    return {MUTATE: mutate, VALIDATE: validate, OPTIONS: validate_options}
