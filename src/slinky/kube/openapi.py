# SPDX-License-Identifier: Apache-2.0
"""Structural schemas from the same structs that decode the objects.

Types give the shape, `msgspec.Meta` the bounds, docstrings the descriptions, defaults the defaults; what
`slinky.kube.schema` puts into `Annotated[...]` is added as it is. What cannot be said in a structural schema is
refused here, not by a server later.
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
        out: Schema = {"type": "object", **description_of(cls)}
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


def description_of(cls: type) -> Schema:
    """The description of a struct, by its docstring, as it stands in a schema."""
    text = cls.__doc__ or ""
    return {"description": " ".join(text.split())} if text else {}
