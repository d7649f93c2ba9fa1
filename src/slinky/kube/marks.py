# SPDX-License-Identifier: Apache-2.0
"""What only Kubernetes has, for use in `Annotated[...]`: CEL rules, list types, free-form parts, formats.

    replicas: Annotated[int, msgspec.Meta(ge=0), described("How many workers.")] = 1
    controller_ref: Annotated[LocalRef, immutable("controllerRef")]

`slinky.kube.schema` turns types that carry these marks into schemas.
"""

from typing import Any

import msgspec

Schema = dict[str, Any]


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
