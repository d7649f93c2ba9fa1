# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: annotations for the types of a struct, and the definition itself.

The functions for `Annotated[...]` add what only Kubernetes schemas have (CEL rules, list types, free-form objects) to
the types of a struct; `slinky.kube.openapi` builds the schema.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from slinky.kube.openapi import Schema, description_of, schema_of

# --- annotations


def rule(cel: str, message: str, *, reason: str = "", field: str = "", optional_old: bool = False) -> Schema:
    """One CEL rule; for `rules`, or for the attribute `__rules__` of a struct."""
    extra = {"reason": reason, "fieldPath": field, "optionalOldSelf": optional_old}
    return {"rule": cel, "message": message, **{name: value for name, value in extra.items() if value}}


def rules(*cel_rules: Schema) -> msgspec.Meta:
    """The CEL rules of one field; only one call per field, because a second one replaces the first."""
    return msgspec.Meta(extra_json_schema={"x-kubernetes-validations": list(cel_rules)})


def immutable(name: str) -> msgspec.Meta:
    """A field that cannot change once set."""
    return rules(rule("self == oldSelf", f"{name} is immutable"))


def list_map(*keys: str) -> msgspec.Meta:
    """A list whose items are identified by these fields, so that field managers can own single items."""
    return _extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def list_set() -> msgspec.Meta:
    """A list without order and without duplicates."""
    return _extra({"x-kubernetes-list-type": "set"})


def list_atomic() -> msgspec.Meta:
    """A list that one field manager owns as a whole."""
    return _extra({"x-kubernetes-list-type": "atomic"})


def struct_atomic() -> msgspec.Meta:
    """An object that one field manager owns as a whole."""
    return _extra({"x-kubernetes-map-type": "atomic"})


def free_form() -> msgspec.Meta:
    """An object whose fields the schema does not check, such as a container or a pod spec."""
    return _extra({"type": "object", "x-kubernetes-preserve-unknown-fields": True})


def openapi_format(name: str) -> msgspec.Meta:
    """An OpenAPI format, such as int32, date-time or duration."""
    return _extra({"format": name})


def default(value: Any) -> msgspec.Meta:
    """The default of the schema, if it differs from the default of the struct."""
    return _extra({"default": value})


def described(text: str) -> msgspec.Meta:
    """The description of a field in `kubectl explain`."""
    return msgspec.Meta(description=text)


def _extra(schema: Schema) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


# --- the definition


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; a `wide` column is shown only with `-o wide`."""

    name: str
    type: str
    path: str
    wide: bool = False
    description: str = ""

    def manifest(self) -> Schema:
        """The entry in the definition."""
        extra = {"priority": int(self.wide), "description": self.description}
        optional = {name: value for name, value in extra.items() if value}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **optional}


AGE = Column("AGE", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True)
class ScaleSubresource:
    """The fields that `kubectl scale` and autoscalers use."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ".status.selector"

    def manifest(self) -> Schema:
        """The entry in the definition."""
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
    schema = _object_schema(spec, status, description or description_of(spec).get("description", ""), rules)
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
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


def _object_schema(spec: type, status: type | None, description: str, rules: Sequence[Schema]) -> Schema:
    properties: Schema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": schema_of(spec),
    }
    if status:
        # A default in a status would look like an observation that no controller has made.
        properties["status"] = schema_of(status, defaults=False)
    schema: Schema = {"type": "object", "properties": properties, "required": ["spec"]}
    schema |= {"description": description} if description else {}
    schema |= {"x-kubernetes-validations": list(rules)} if rules else {}
    return schema
