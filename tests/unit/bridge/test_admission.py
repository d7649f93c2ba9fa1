# SPDX-License-Identifier: Apache-2.0
"""What may in."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from slinky.bridge import admission, names
from slinky.bridge.config import Requirement, Selector, Settings
from slinky.kube import Ask, Reply

from .build import pod

SETTINGS = Settings(managed_namespaces=("managed",))
OPTION = names.OPTION


def manifest(namespace: str = "managed", *, labels: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"schedulerName": names.SCHEDULER, **spec}}


async def ask(path: str, new: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> Reply:
    async def labels_of(namespace: str) -> Mapping[str, str]:
        return {"team": namespace}

    found = Ask(
        "u",
        operation="UPDATE" if old else "CREATE",
        namespace=new["metadata"]["namespace"],
        object=msgspec.Raw(json.dumps(new).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()),
        **more,
    )
    return await admission.handlers(SETTINGS, labels_of)[path](found)


@pytest.mark.parametrize(
    ("namespace", "scheduler", "taken"),
    [
        ("managed", "default-scheduler", True),
        ("managed", "another", False),
        ("elsewhere", "default-scheduler", False),
    ],
)
async def test_pods_of_managed_namespaces_are_handed_to_slurm(namespace: str, scheduler: str, taken: bool) -> None:
    reply = await ask(admission.MUTATE, manifest(namespace, schedulerName=scheduler))
    expected = ({"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER},)
    assert reply.patch == (expected if taken else ())


async def test_a_preset_node_is_cleared() -> None:
    reply = await ask(admission.MUTATE, manifest("elsewhere", nodeName="n1"))
    assert reply.patch == ({"op": "remove", "path": "/spec/nodeName"},)


def test_a_selector_decides_alone() -> None:
    settings = Settings(managed_namespaces=("a",), managed_namespace_selector=Selector({"bridge": "yes"}))
    assert not admission.managed(settings, "a", {})
    assert admission.managed(settings, "b", {"bridge": "yes"})


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a",), {"k": "a"}, True), ("In", ("a",), {}, False), ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True), ("DoesNotExist", (), {"k": ""}, False),
    ],
)  # fmt: skip
def test_selector_operators(operator: Any, values: tuple[str, ...], labels: dict[str, str], expected: bool) -> None:
    selector = Selector(match_expressions=(Requirement("k", operator, values),))
    assert admission.matches(selector, labels) is expected


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
async def test_what_slurm_cannot_honour_or_would_pose_as_another_is_refused(given: dict[str, Any]) -> None:
    assert not (await ask(admission.VALIDATE, manifest(**given))).allowed
    assert (await ask(admission.VALIDATE, manifest(**{**given, "schedulerName": "another"}))).allowed


@pytest.mark.parametrize(
    "given",
    [
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
    ],
)
async def test_what_will_be_ignored_is_said(given: dict[str, Any]) -> None:
    reply = await ask(admission.VALIDATE, manifest(**given))
    assert reply.allowed
    assert reply.warnings


async def test_claims_are_welcome() -> None:
    reply = await ask(admission.VALIDATE, manifest(resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}]))
    assert reply == Reply()


MARKS = [("labels", names.JOB_LABEL), ("annotations", names.NODE_ANNOTATION), ("annotations", names.SLUID_ANNOTATION)]


@pytest.mark.parametrize(("part", "name"), MARKS)
@pytest.mark.parametrize("phase", ["Pending", "Running"])
async def test_what_ties_a_pod_to_its_job_can_only_be_taken_off_and_only_before_it_runs(
    part: str, name: str, phase: str
) -> None:
    marks: list[dict[str, Any]] = [{part: {name: job}} for job in ("7", "8")]
    tied, other = (manifest(**mark) for mark in marks)
    for before, after, allowed in (
        (tied, tied, True),
        (tied, manifest(), phase == "Pending"),
        (tied, other, False),  # somebody else's job, which would end with this pod
        (manifest(), other, False),
    ):
        old = {**before, "status": {"phase": phase}}
        assert (await ask(admission.VALIDATE, after, old)).allowed is allowed


async def test_a_pod_cannot_be_resized() -> None:
    assert not (await ask(admission.VALIDATE, manifest(), manifest(), sub_resource="resize")).allowed


async def test_options_are_checked_on_owners_too() -> None:
    assert not (await ask(admission.OPTIONS, manifest(annotations={OPTION + "qos": "a b"}))).allowed
    assert not (await ask(admission.OPTIONS, manifest(annotations={OPTION + "wrong": "x"}))).allowed
    assert (await ask(admission.OPTIONS, manifest())).allowed


async def test_an_unknown_option_that_is_there_already_keeps_nobody_from_changing_the_rest() -> None:
    old = manifest(annotations={OPTION + "wrong": "x"})
    for path in (admission.OPTIONS, admission.VALIDATE):
        assert (await ask(path, manifest(annotations={OPTION + "wrong": "y"}), old)).allowed
        assert not (await ask(path, manifest(annotations={OPTION + "other": "x"}), old)).allowed


def test_a_plain_pod_has_nothing_to_complain_about() -> None:
    assert admission.complaints(pod()) == []
    assert admission.warnings(pod()) == []
