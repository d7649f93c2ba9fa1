# SPDX-License-Identifier: Apache-2.0
"""Differences between the definitions of the cluster and those of the operator are named with the next step."""

import copy
from typing import Any

import pytest

from slinky.api import controller, crds
from slinky.operator.framework.definition_skew import DefinitionSkew, compare, published_schemas

OURS: dict[str, Any] = {
    definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for definition in crds.DEFINITIONS
}


def served(change: str = "", field: str = "", schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schemas of a cluster whose Controller lacks a field, or has one more."""
    found = copy.deepcopy(OURS)
    spec = found["Controller"]["properties"]["spec"]["properties"]
    if change == "remove":
        del spec[field]
    elif change == "add":
        spec[field] = schema or {"type": "string"}
    return found


def test_the_definitions_of_this_version_do_not_differ() -> None:
    assert compare(served()) == []


def test_older_definitions_are_named_with_the_fields_that_have_no_effect() -> None:
    (skew,) = compare(served("remove", "outage"))
    assert skew.kind == "Controller"
    assert "spec.outage" in skew.missing
    (sentence,) = skew.sentences()
    assert (
        "The definition of Controller is older than the operator: the API server drops spec.outage, which" in sentence
    )
    assert sentence.endswith("upgrade the chart slurm-operator-crds (docs/operator/upgrade-and-uninstall.md).")


def test_newer_definitions_are_named_with_the_fields_that_are_ignored() -> None:
    inner = {"type": "array", "items": {"properties": {"a": {}}}}
    (skew,) = compare(served("add", "future", {"properties": {"list": inner}}))
    assert skew.additional == ("spec.future", "spec.future.list", "spec.future.list[].a")
    (sentence,) = skew.sentences()
    assert "is newer than the operator, or of another operator: it ignores spec.future; upgrade" in sentence


def test_a_kind_that_is_not_served_is_named() -> None:
    found = served()
    del found["Token"]
    (skew,) = compare(found)
    assert next(skew.sentences()).startswith("The API server does not serve Token; upgrade the chart")


def test_a_long_list_of_fields_is_shortened() -> None:
    skew = DefinitionSkew("NodeSet", True, missing=tuple(f"spec.f{number}" for number in range(8)))
    assert "spec.f0, spec.f1, spec.f2, spec.f3, spec.f4 and 3 more" in next(skew.sentences())


@pytest.mark.parametrize("document", [{}, {"components": {}}, {"components": {"schemas": {"a": {}}}}], ids=str)
def test_a_document_without_our_kinds_has_no_schemas(document: dict[str, Any]) -> None:
    assert published_schemas(document) == {}


def test_lists_of_a_kind_are_not_the_kind() -> None:
    group = {"group": "slinky.slurm.net", "version": "v1beta1"}
    schemas = {
        "one": {**controller_schema(), "x-kubernetes-group-version-kind": [{**group, "kind": "Controller"}]},
        "list": {"properties": {"items": {}}, "x-kubernetes-group-version-kind": [{**group, "kind": "ControllerList"}]},
    }
    assert list(published_schemas({"components": {"schemas": schemas}})) == ["Controller"]


def controller_schema() -> dict[str, Any]:
    schema: dict[str, Any] = controller.DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema
