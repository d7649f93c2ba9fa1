# SPDX-License-Identifier: Apache-2.0
"""Rules that hold for every CustomResourceDefinition."""

from collections.abc import Iterator
from typing import Any

import pytest

from slinky.api import crds
from slinky.api.fields import conditions
from slinky.api.names import metadata

NAMES = [definition["metadata"]["name"] for definition in crds.DEFINITIONS]


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from fields(inner, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=NAMES)
def test_every_field_of_a_spec_has_a_description(definition: dict[str, Any]) -> None:
    spec = schema_of(definition)["properties"]["spec"]
    assert [path for path, field in fields(spec, "spec") if not field.get("description")] == []


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=NAMES)
def test_every_description_is_a_sentence(definition: dict[str, Any]) -> None:
    texts = [field["description"] for _, field in fields(schema_of(definition), "") if field.get("description")]
    assert [text for text in texts if not text.endswith(".") or not (text[0].isupper() or "_" in text.split()[0])] == []


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=NAMES)
def test_no_reference_can_name_another_namespace(definition: dict[str, Any]) -> None:
    spec = schema_of(definition)["properties"]["spec"]
    assert [path for path, _ in fields(spec, "spec") if path.lower().endswith("namespace")] == []


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=NAMES)
def test_every_list_says_how_it_merges(definition: dict[str, Any]) -> None:
    lists = [
        path
        for path, field in fields(schema_of(definition), "")
        if field.get("type") == "array" and "x-kubernetes-list-type" not in field
    ]
    assert lists == []


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=NAMES)
def test_every_status_has_conditions_and_a_generation(definition: dict[str, Any]) -> None:
    status = schema_of(definition)["properties"]["status"]["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert status["observedGeneration"]["type"] == "integer"


def test_no_key_is_listed_twice() -> None:
    listed = [
        entry.key
        for table in (metadata.ANNOTATIONS, metadata.LABELS, metadata.FINALIZERS_AND_TAINTS)
        for entry in table
    ]
    assert len(listed) == len(set(listed))
    assert len({row.type for row in conditions.CONDITIONS}) == len(conditions.CONDITIONS)
