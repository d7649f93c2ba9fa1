# SPDX-License-Identifier: Apache-2.0
"""Laws of schemas from structs; `tests/integration/kube` submits them to the API server."""

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta as Bounds

from slinky.kube import View
from slinky.kube.openapi import NotStructural, schema_of
from slinky.kube.schema import (
    Column,
    ScaleSubresource,
    default,
    definition,
    described,
    free_form,
    list_map,
    openapi_format,
    rule,
    rules,
)


class Colour(enum.Enum):
    RED = "red"


class Inner(View, frozen=True):
    """Two  words
    and more.
    """

    name: str


CASES: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (int, {"type": "integer", "format": "int64"}),
    (Annotated[int, Bounds(ge=1, le=5)], {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5}),
    (Annotated[int, openapi_format("int32")], {"type": "integer", "format": "int32"}),
    (float, {"type": "number"}),
    (datetime, {"type": "string", "format": "date-time"}),
    (bytes, {"type": "string", "format": "byte"}),
    (str | None, {"type": "string"}),
    (int | str, {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Colour, {"type": "string", "enum": ["red"]}),
    (Annotated[str, Bounds(min_length=1, pattern="^a")], {"type": "string", "minLength": 1, "pattern": "^a"}),
    (
        Annotated[tuple[str, ...], Bounds(max_length=3), list_map("x")],
        {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["x"],
        },
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}}),
    (
        Annotated[dict[str, Any], free_form()],
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ),
    (Any, {"x-kubernetes-preserve-unknown-fields": True}),
    (Annotated[str, described("What it is.")], {"type": "string", "description": "What it is."}),
    (
        Annotated[str, rules(rule("self != ''", "say something"))],
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "message": "say something"}]},
    ),
    (
        Inner,
        {
            "type": "object",
            "description": "Two words and more.",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    ),
]


@pytest.mark.parametrize(("kind", "expected"), CASES, ids=[str(kind)[:60] for kind, _ in CASES])
def test_a_type_has_its_schema(kind: Any, expected: dict[str, Any]) -> None:
    holder = msgspec.defstruct("Holder", [("field", kind)])
    assert schema_of(holder)["properties"]["field"] == expected


def test_rules_of_a_struct_and_of_its_field_are_both_kept() -> None:
    class Ruled(View, frozen=True):
        __rules__ = (rule("self.x > 0", "positive"),)
        x: int

    holder = msgspec.defstruct("Holder", [("field", Annotated[Ruled, rules(rule("self == oldSelf", "fixed"))])])
    cel_rules = schema_of(holder)["properties"]["field"]["x-kubernetes-validations"]
    assert [entry["message"] for entry in cel_rules] == ["positive", "fixed"]


def test_only_meaningful_defaults_are_written() -> None:
    class Given(View, frozen=True):
        yes: bool = True
        no: bool = False
        none: str | None = None
        empty: str = ""
        zero: int = 0
        many: tuple[str, ...] = ()
        inner: Inner = Inner("x")
        other: Annotated[Inner | None, default({"name": "y"})] = None

    properties = schema_of(Given)["properties"]
    written = {name: part["default"] for name, part in properties.items() if "default" in part}
    assert written == {"yes": True, "no": False, "zero": 0, "other": {"name": "y"}}
    assert not any(
        "default" in part
        for part in schema_of(Given, defaults=False)["properties"].values()
        if part != properties["other"]
    )


@pytest.mark.parametrize("kind", [int | list[str], dict[int, str], Literal[1, 2], tuple[int, str]])
def test_what_is_not_structural_is_refused(kind: Any) -> None:
    with pytest.raises(NotStructural):
        schema_of(msgspec.defstruct("Holder", [("field", kind)]))


class Tree(View, frozen=True):
    children: tuple["Tree", ...] = ()


def test_a_struct_within_itself_is_refused() -> None:
    with pytest.raises(NotStructural, match="contains itself"):
        schema_of(Tree)


def test_a_definition_has_names_columns_and_subresources() -> None:
    crd = definition(
        "g.dev",
        "v1",
        "Thing",
        "things",
        spec=Inner,
        status=Inner,
        columns=[Column("N", "string", ".spec.name", wide=True)],
        scale=ScaleSubresource(),
        short_names=["t"],
        namespaced=False,
    )
    version = crd["spec"]["versions"][0]
    assert crd["metadata"]["name"] == "things.g.dev"
    assert crd["spec"]["names"]["shortNames"] == ["t"]
    assert crd["spec"]["scope"] == "Cluster"
    assert version["additionalPrinterColumns"] == [
        {"name": "N", "type": "string", "jsonPath": ".spec.name", "priority": 1}
    ]
    assert set(version["subresources"]) == {"status", "scale"}
