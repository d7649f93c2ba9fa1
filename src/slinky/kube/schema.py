# SPDX-License-Identifier: Apache-2.0
"""The words of a CustomResourceDefinition: what goes into `Annotated[...]`, and the definition itself.

The small functions add what only Kubernetes has (CEL rules, list types, free-form parts) to the types of a struct;
`slinky.kube.openapi` makes a schema of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from slinky.kube.openapi import Schema, description_of, schema_of

# --- what goes into Annotated[...]


def rule(cel: str, message: str, *, reason: str = "", field: str = "", optional_old: bool = False) -> Schema:
    """One CEL rule; for `rules`, or for a struct's `__rules__`."""
    extra = {"reason": reason, "fieldPath": field, "optionalOldSelf": optional_old}
    return {"rule": cel, "message": message, **{name: value for name, value in extra.items() if value}}


def rules(*given: Schema) -> msgspec.Meta:
    """CEL rules of one field, all in one call: a second `rules` on the same field would replace the first."""
    return msgspec.Meta(extra_json_schema={"x-kubernetes-validations": list(given)})


def immutable(name: str) -> msgspec.Meta:
    """A field that cannot change once set."""
    return rules(rule("self == oldSelf", f"{name} is immutable"))


def list_map(*keys: str) -> msgspec.Meta:
    """A list whose items are told apart by these fields, so that two appliers can each own some."""
    return _extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def list_set() -> msgspec.Meta:
    """A list without order or repetition."""
    return _extra({"x-kubernetes-list-type": "set"})


def list_atomic() -> msgspec.Meta:
    """A list that one applier owns whole."""
    return _extra({"x-kubernetes-list-type": "atomic"})


def struct_atomic() -> msgspec.Meta:
    """An object that one applier owns whole."""
    return _extra({"x-kubernetes-map-type": "atomic"})


def free_form() -> msgspec.Meta:
    """An object the schema says nothing about: a container, a pod spec."""
    return _extra({"type": "object", "x-kubernetes-preserve-unknown-fields": True})


def embedded() -> msgspec.Meta:
    """A whole other object, with apiVersion, kind and metadata."""
    return _extra(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    )


def openapi_format(name: str) -> msgspec.Meta:
    """An OpenAPI format: int32, date-time, duration."""
    return _extra({"format": name})


def default(value: Any) -> msgspec.Meta:
    """A default that the server fills in although the struct has another, or none."""
    return _extra({"default": value})


def nullable() -> msgspec.Meta:
    """A field that may be null, as opposed to absent."""
    return _extra({"nullable": True})


def described(text: str) -> msgspec.Meta:
    """What `kubectl explain` says about a field."""
    return msgspec.Meta(description=text)


def _extra(schema: Schema) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


# --- the definition itself


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; `wide` ones only with `-o wide`."""

    name: str
    type: str
    path: str
    wide: bool = False
    description: str = ""

    def manifest(self) -> Schema:
        """As it goes into the definition."""
        extra = {"priority": int(self.wide), "description": self.description}
        shown = {name: value for name, value in extra.items() if value}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **shown}


AGE = Column("AGE", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True)
class ScaleSubresource:
    """Where `kubectl scale` and autoscalers find their numbers."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ".status.selector"

    def manifest(self) -> Schema:
        """As it goes into the definition."""
        return {
            "specReplicasPath": self.spec,
            "statusReplicasPath": self.status,
            "labelSelectorPath": self.selector,
        }


def definition(
    group: str,
    version: str,
    kind: str,
    plural: str,
    *,
    spec: type,
    status: type | None = None,
    rules: Sequence[Schema] = (),
    description: str = "",
    columns: Iterable[Column] = (AGE,),
    scale: ScaleSubresource | None = None,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    namespaced: bool = True,
    annotations: Mapping[str, str] | None = None,
) -> Schema:
    """A CustomResourceDefinition with one served and stored version."""
    names: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    names |= {"shortNames": list(short_names)} if short_names else {}
    names |= {"categories": list(categories)} if categories else {}
    whole = _whole(spec, status, description or description_of(spec).get("description", ""), rules)
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "additionalPrinterColumns": [column.manifest() for column in columns],
        "subresources": _subresources(status, scale),
    }
    meta = {"name": f"{plural}.{group}", **({"annotations": dict(annotations)} if annotations else {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{name: value for name, value in served.items() if value}],
        },
    }


def _subresources(status: type | None, scale: ScaleSubresource | None) -> Schema:
    return ({"status": {}} if status else {}) | ({"scale": scale.manifest()} if scale else {})


def _whole(spec: type, status: type | None, description: str, rules: Sequence[Schema]) -> Schema:
    properties: Schema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": schema_of(spec),
    }
    if status:
        # A default in a status would be a claim that nobody made.
        properties["status"] = schema_of(status, defaults=False)
    out: Schema = {"type": "object", "properties": properties, "required": ["spec"]}
    out |= {"description": description} if description else {}
    out |= {"x-kubernetes-validations": list(rules)} if rules else {}
    return out
