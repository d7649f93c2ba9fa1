# SPDX-License-Identifier: Apache-2.0
"""Admission rules of pods and of objects with options."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.admission import rules
from slinky.bridge.config import BridgeSettings, Policy, PolicyRule
from slinky.kube import AdmissionRequest, AdmissionResponse
from slinky.kube.label_selector import LabelRequirement, LabelSelector, selector_matches

SETTINGS = BridgeSettings(managed_namespaces=("managed",))
OPTION = names.OPTION


def manifest(namespace: str = "managed", *, labels: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"schedulerName": names.SCHEDULER, **spec}}


async def ask(
    path: str, new: dict[str, Any], old: dict[str, Any] | None = None, settings: BridgeSettings = SETTINGS, **more: Any
) -> AdmissionResponse:
    async def labels_of(namespace: str) -> Mapping[str, str]:
        return {"team": namespace}

    result = AdmissionRequest(
        "u",
        operation="UPDATE" if old else "CREATE",
        namespace=new["metadata"]["namespace"],
        object=msgspec.Raw(json.dumps(new).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()),
        **more,
    )
    return await rules.handlers(settings, labels_of)[path](result)


@pytest.mark.parametrize(
    ("namespace", "scheduler", "taken"),
    [
        ("managed", "default-scheduler", True),
        ("managed", "another", False),
        ("elsewhere", "default-scheduler", False),
    ],
)
async def test_pods_of_managed_namespaces_are_assigned_to_the_bridge(
    namespace: str, scheduler: str, taken: bool
) -> None:
    reply = await ask(rules.MUTATE, manifest(namespace, schedulerName=scheduler))
    expected = ({"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER},)
    assert reply.patch == (expected if taken else ())


async def test_a_preset_node_is_cleared() -> None:
    reply = await ask(rules.MUTATE, manifest("elsewhere", nodeName="n1"))
    assert reply.patch == ({"op": "remove", "path": "/spec/nodeName"},)


def test_a_selector_replaces_the_list_of_namespaces() -> None:
    settings = BridgeSettings(managed_namespaces=("a",), managed_namespace_selector=LabelSelector({"bridge": "yes"}))
    assert not rules.is_managed(settings, "a", {})
    assert rules.is_managed(settings, "b", {"bridge": "yes"})


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a",), {"k": "a"}, True), ("In", ("a",), {}, False), ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True), ("DoesNotExist", (), {"k": ""}, False),
    ],
)  # fmt: skip
def test_selector_operators(operator: Any, values: tuple[str, ...], labels: dict[str, str], expected: bool) -> None:
    selector = LabelSelector(match_expressions=(LabelRequirement("k", operator, values),))
    assert selector_matches(selector, labels) is expected


@pytest.mark.parametrize(
    "given",
    [
        {"labels": {names.JOB_LABEL: "7"}},
        {"annotations": {names.NODE_ANNOTATION: "n1"}},
        {"annotations": {names.SLUID_ANNOTATION: "sAB"}},
        {"annotations": {OPTION + "timelimit": "soon"}},
        {"annotations": {OPTION + "timelimt": "5"}},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}},
        {
            "annotations": {OPTION + "gres": "gres/gpu:1"},
            "containers": [{"resources": {"limits": {names.DEVICE_CLASS_PREFIX + "gpu.example.com": "1"}}}],
        },
    ],
)
async def test_unsupported_constraints_and_forged_job_metadata_are_rejected(given: dict[str, Any]) -> None:
    assert not (await ask(rules.VALIDATE, manifest(**given))).allowed
    assert (await ask(rules.VALIDATE, manifest(**{**given, "schedulerName": "another"}))).allowed


@pytest.mark.parametrize(
    "given",
    [
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
    ],
)
async def test_ignored_fields_cause_a_warning(given: dict[str, Any]) -> None:
    reply = await ask(rules.VALIDATE, manifest(**given))
    assert reply.allowed
    assert reply.warnings


@pytest.mark.parametrize(
    ("labels", "owners", "allowed"),
    [
        ({}, [], False),
        ({names.POD_GROUP_LABEL: "g"}, [], True),  # the group speaks for it, and is judged when the job is made
        ({}, [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}], True),
    ],
)
async def test_options_against_the_policy_are_rejected_on_pods_without_an_owner(
    labels: dict[str, str], owners: list[dict[str, Any]], allowed: bool
) -> None:
    posing = manifest(labels=labels, annotations={OPTION + "user-id": "root"})
    posing["metadata"]["ownerReferences"] = owners
    settings = BridgeSettings(policy=Policy(rules=(PolicyRule("guests", default={"account": "guests"}),)))
    for reply in (await ask(rules.VALIDATE, posing, settings=settings), await ask(rules.VALIDATE, posing)):
        assert reply.allowed is allowed
        assert allowed or "allow: {user-id: ['root']}" in reply.message
    trusting = BridgeSettings(policy=Policy("trust-annotations"))
    assert (await ask(rules.VALIDATE, posing, settings=trusting)).allowed


async def test_an_update_cannot_add_an_option_against_the_policy() -> None:
    plain, posing = manifest(), manifest(annotations={OPTION + "user-id": "root"})
    assert "user-id is not allowed" in (await ask(rules.VALIDATE, posing, old=plain)).message
    assert (await ask(rules.VALIDATE, posing, old=posing)).allowed  # it was admitted by another policy


async def test_resource_claims_are_admitted() -> None:
    reply = await ask(rules.VALIDATE, manifest(resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}]))
    assert reply == AdmissionResponse()


MARKS = [("labels", names.JOB_LABEL), ("annotations", names.NODE_ANNOTATION), ("annotations", names.SLUID_ANNOTATION)]


@pytest.mark.parametrize(("part", "name"), MARKS)
@pytest.mark.parametrize("phase", ["Pending", "Running"])
async def test_job_metadata_can_only_be_removed_and_only_before_the_pod_runs(part: str, name: str, phase: str) -> None:
    marks: list[dict[str, Any]] = [{part: {name: job}} for job in ("7", "8")]
    tied, other = (manifest(**mark) for mark in marks)
    for before, after, allowed in (
        (tied, tied, True),
        (tied, manifest(), phase == "Pending"),
        (tied, other, False),  # somebody else's job, which would end with this pod
        (manifest(), other, False),
    ):
        old = {**before, "status": {"phase": phase}}
        assert (await ask(rules.VALIDATE, after, old)).allowed is allowed
    placed = {**manifest(nodeName="n1", **marks[0]), "status": {"phase": phase}}
    assert not (await ask(rules.VALIDATE, manifest(nodeName="n1"), placed)).allowed, "a container may be starting"


async def test_a_pod_cannot_be_resized() -> None:
    assert not (await ask(rules.VALIDATE, manifest(), manifest(), sub_resource="resize")).allowed


async def test_options_are_checked_on_owners_too() -> None:
    assert not (await ask(rules.OPTIONS, manifest(annotations={OPTION + "qos": "a b"}))).allowed
    assert not (await ask(rules.OPTIONS, manifest(annotations={OPTION + "wrong": "x"}))).allowed
    assert (await ask(rules.OPTIONS, manifest())).allowed


@pytest.mark.parametrize(
    ("present", "alike", "worse"),
    [
        ({"wrong": "x"}, {"wrong": "y"}, {"wrong": "x", "other": "x"}),
        ({"timelimit": "soon"}, {"timelimit": "soon", "qos": "high"}, {"timelimit": "later"}),
    ],
)
async def test_an_existing_violation_does_not_block_other_changes(
    present: dict[str, str], alike: dict[str, str], worse: dict[str, str]
) -> None:
    def noted(options: dict[str, str]) -> dict[str, Any]:
        return manifest(annotations={OPTION + name: value for name, value in options.items()})

    for path in (rules.OPTIONS, rules.VALIDATE):
        assert (await ask(path, noted(alike), noted(present))).allowed
        assert not (await ask(path, noted(worse), noted(present))).allowed


def test_a_plain_pod_has_no_violations() -> None:
    assert rules.violations(pod(), rules.ON_CREATE) == []
    assert rules.ignored_fields(pod()) == []


@pytest.mark.parametrize("path", [rules.VALIDATE, rules.OPTIONS])
async def test_an_option_with_the_old_prefix_is_accepted_with_a_warning(path: str) -> None:
    old = manifest(annotations={names.OLD_OPTION + "job-name": "x"})
    reply = await ask(path, old)
    assert reply.allowed
    assert reply.warnings == ("slinky.slurm.net/job-name is an old name; use slurmjob.slinky.slurm.net/job-name",)
    assert (await ask(path, old, old)).warnings == ()
    wrong = await ask(path, manifest(annotations={names.OLD_OPTION + "timelimit": "soon"}))
    assert "timelimit" in wrong.message


@pytest.mark.parametrize("path", [rules.VALIDATE, rules.OPTIONS])
async def test_an_unknown_option_is_rejected_with_the_nearest_one(path: str) -> None:
    reply = await ask(path, manifest(annotations={OPTION + "time-limit": "1h"}))
    assert "did you mean timelimit?" in reply.message
