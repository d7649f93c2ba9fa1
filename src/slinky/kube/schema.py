# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions from the same structs that decode the objects.

Types give the shape, `msgspec.Meta` the bounds, docstrings the descriptions, defaults the defaults; the small
functions below add what only Kubernetes has (CEL rules, list types, free-form parts). What cannot be said in
a structural schema is refused here, not by a server later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect as mi

Schema = dict[str, Any]

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


def form(name: str) -> msgspec.Meta:
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


# --- from types to schemas

_NUMBER = {"ge": "minimum", "le": "maximum", "multiple_of": "multipleOf"}
_TEXT = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_LIST = {"min_length": "minItems", "max_length": "maxItems"}
_MAP = {"min_length": "minProperties", "max_length": "maxProperties"}


class NotStructural(TypeError):  # noqa: N818
    """A type that a structural schema cannot express."""


def schema_of(kind: type, *, defaults: bool = True) -> Schema:
    """The structural schema of a struct."""
    return _Builder(defaults).schema(mi.type_info(kind))


class _Builder:
    def __init__(self, defaults: bool) -> None:
        self._defaults = defaults
        self._above: list[type] = []

    def schema(self, kind: mi.Type) -> Schema:
        for family, build in _BUILDERS.items():
            if isinstance(kind, family):
                return build(self, kind)
        raise NotStructural(f"not structural: {kind}")

    def metadata(self, kind: mi.Metadata) -> Schema:
        inner = self.schema(kind.type)
        extra = {**(kind.extra_json_schema or {}), **(kind.extra or {})}
        if "x-kubernetes-preserve-unknown-fields" in extra:
            inner = {}
        both = [*inner.get("x-kubernetes-validations", ()), *extra.get("x-kubernetes-validations", ())]
        return {**inner, **extra, **({"x-kubernetes-validations": both} if both else {})}

    def struct(self, kind: mi.StructType) -> Schema:
        cls = kind.cls
        if cls in self._above:
            raise NotStructural(f"{cls.__name__} contains itself")
        self._above.append(cls)
        out: Schema = {"type": "object", **_description(cls)}
        out["properties"] = {found.encode_name: self.field(found) for found in kind.fields}
        if required := [found.encode_name for found in kind.fields if found.required]:
            out["required"] = required
        if given := getattr(cls, "__rules__", ()):
            out["x-kubernetes-validations"] = list(given)
        self._above.pop()
        return out

    def field(self, found: mi.Field) -> Schema:
        schema = self.schema(found.type)
        if self._defaults and "default" not in schema and _spoken(found.default):
            schema["default"] = msgspec.to_builtins(found.default)
        return schema

    def union(self, kind: mi.UnionType) -> Schema:
        rest = [inner for inner in kind.types if not isinstance(inner, mi.NoneType)]
        if len(rest) == 1:
            return self.schema(rest[0])
        if {type(inner) for inner in rest} == {mi.IntType, mi.StrType}:
            return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        raise NotStructural(f"a union other than int or string: {kind}")

    def array(self, kind: Any) -> Schema:
        return {"type": "array", "items": self.schema(kind.item_type), **_limits(kind, _LIST)}

    def mapping(self, kind: mi.DictType) -> Schema:
        if not isinstance(kind.key_type, mi.StrType):
            raise NotStructural(f"keys must be strings: {kind}")
        values = self.schema(kind.value_type)
        return {"type": "object", "additionalProperties": values, **_limits(kind, _MAP)}


def _integer(_: _Builder, kind: Any) -> Schema:
    small = kind.le is not None and kind.le < 2**31
    return {"type": "integer", "format": "int32" if small else "int64", **_limits(kind, _NUMBER)}


def _plain(name: str, names: Mapping[str, str]) -> Callable[[_Builder, Any], Schema]:
    return lambda _, kind: {"type": name, **_limits(kind, names)}


def _fixed(schema: Schema) -> Callable[[_Builder, Any], Schema]:
    return lambda _builder, _kind: dict(schema)


_BUILDERS: dict[type[mi.Type], Callable[[_Builder, Any], Schema]] = {
    mi.Metadata: _Builder.metadata,
    mi.StructType: _Builder.struct,
    mi.UnionType: _Builder.union,
    mi.ListType: _Builder.array,
    mi.VarTupleType: _Builder.array,
    mi.SetType: _Builder.array,
    mi.DictType: _Builder.mapping,
    mi.StrType: _plain("string", _TEXT),
    mi.FloatType: _plain("number", _NUMBER),
    mi.IntType: _integer,
    mi.BoolType: _fixed({"type": "boolean"}),
    mi.BytesType: _fixed({"type": "string", "format": "byte"}),
    mi.DateTimeType: _fixed({"type": "string", "format": "date-time"}),
    mi.LiteralType: lambda _, kind: _choice(kind.values),
    mi.EnumType: lambda _, kind: _choice([member.value for member in kind.cls]),
    mi.AnyType: _fixed({"x-kubernetes-preserve-unknown-fields": True}),
    mi.RawType: _fixed({"x-kubernetes-preserve-unknown-fields": True}),
}


def _choice(values: Iterable[Any]) -> Schema:
    listed = list(values)
    if not all(isinstance(value, str) for value in listed):
        raise NotStructural(f"choices must be strings: {listed}")
    return {"type": "string", "enum": listed}


def _limits(kind: Any, names: Mapping[str, str]) -> Schema:
    found = {outer: getattr(kind, inner, None) for inner, outer in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _spoken(value: Any) -> bool:
    """Is a default worth writing: not absent, not None, not an empty collection or text, not a struct."""
    if value is msgspec.NODEFAULT or value is None or isinstance(value, msgspec.Struct):
        return False
    return value not in ("", (), [], {})


def _description(cls: type) -> Schema:
    text = cls.__doc__ or ""
    return {"description": " ".join(text.split())} if text else {}


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
class Scaled:
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
    scale: Scaled | None = None,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    namespaced: bool = True,
    annotations: Mapping[str, str] | None = None,
) -> Schema:
    """A CustomResourceDefinition with one served and stored version."""
    names: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    names |= {"shortNames": list(short_names)} if short_names else {}
    names |= {"categories": list(categories)} if categories else {}
    whole = _whole(spec, status, description or _description(spec).get("description", ""), rules)
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


def _subresources(status: type | None, scale: Scaled | None) -> Schema:
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
