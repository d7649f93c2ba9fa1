# SPDX-License-Identifier: Apache-2.0
"""Structural OpenAPI schemas from the structs that decode the objects.

The schema takes types and defaults from the fields, bounds from `msgspec.Meta`, descriptions from docstrings, and the
annotations of `slinky.kube.schema` as they are. A type that a structural schema cannot express raises `NotStructural`,
so that the mistake is found before the API server refuses the definition.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect as mi

Schema = dict[str, Any]

_NUMBER = {"ge": "minimum", "le": "maximum", "multiple_of": "multipleOf"}
_TEXT = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_LIST = {"min_length": "minItems", "max_length": "maxItems"}
_MAP = {"min_length": "minProperties", "max_length": "maxProperties"}


class NotStructural(TypeError):  # noqa: N818
    """A structural schema cannot express this type."""


def schema_of(kind: type, *, defaults: bool = True) -> Schema:
    """The structural schema of a struct."""
    return _Builder(defaults).schema(mi.type_info(kind))


class _Builder:
    def __init__(self, defaults: bool) -> None:
        self._defaults = defaults
        self._enclosing: list[type] = []

    def schema(self, kind: mi.Type) -> Schema:
        for family, build in _BUILDERS.items():
            if isinstance(kind, family):
                return build(self, kind)
        raise NotStructural(f"a structural schema cannot express {kind}")

    def metadata(self, kind: mi.Metadata) -> Schema:
        inner = self.schema(kind.type)
        extra = {**(kind.extra_json_schema or {}), **(kind.extra or {})}
        if "x-kubernetes-preserve-unknown-fields" in extra:
            inner = {}
        both = [*inner.get("x-kubernetes-validations", ()), *extra.get("x-kubernetes-validations", ())]
        return {**inner, **extra, **({"x-kubernetes-validations": both} if both else {})}

    def struct(self, kind: mi.StructType) -> Schema:
        cls = kind.cls
        if cls in self._enclosing:
            raise NotStructural(f"{cls.__name__} contains itself")
        self._enclosing.append(cls)
        schema: Schema = {"type": "object", **description_of(cls)}
        schema["properties"] = {field.encode_name: self.field(field) for field in kind.fields}
        if required := [field.encode_name for field in kind.fields if field.required]:
            schema["required"] = required
        if cel_rules := getattr(cls, "__rules__", ()):
            schema["x-kubernetes-validations"] = list(cel_rules)
        self._enclosing.pop()
        return schema

    def field(self, field: mi.Field) -> Schema:
        schema = self.schema(field.type)
        if self._defaults and "default" not in schema and _is_written(field.default):
            schema["default"] = msgspec.to_builtins(field.default)
        return schema

    def union(self, kind: mi.UnionType) -> Schema:
        members = [inner for inner in kind.types if not isinstance(inner, mi.NoneType)]
        if len(members) == 1:
            return self.schema(members[0])
        if {type(inner) for inner in members} == {mi.IntType, mi.StrType}:
            return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        raise NotStructural(f"the only union in a structural schema is int or string, not {kind}")

    def array(self, kind: Any) -> Schema:
        return {"type": "array", "items": self.schema(kind.item_type), **_limits(kind, _LIST)}

    def mapping(self, kind: mi.DictType) -> Schema:
        if not isinstance(kind.key_type, mi.StrType):
            raise NotStructural(f"the keys of a mapping must be strings: {kind}")
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
    choices = list(values)
    if not all(isinstance(value, str) for value in choices):
        raise NotStructural(f"the choices of an enum must be strings: {choices}")
    return {"type": "string", "enum": choices}


def _limits(kind: Any, names: Mapping[str, str]) -> Schema:
    limits = {outer: getattr(kind, inner, None) for inner, outer in names.items()}
    return {name: value for name, value in limits.items() if value is not None}


def _is_written(value: Any) -> bool:
    """Whether the schema has this default: not None, not empty, and not a struct."""
    if value is msgspec.NODEFAULT or value is None or isinstance(value, msgspec.Struct):
        return False
    return value not in ("", (), [], {})


def description_of(cls: type) -> Schema:
    """The description of a struct in a schema: its docstring."""
    text = cls.__doc__ or ""
    return {"description": " ".join(text.split())} if text else {}
