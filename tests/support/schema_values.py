# SPDX-License-Identifier: Apache-2.0
"""Objects that the schema of a CustomResourceDefinition admits, with hostile values where it leaves a choice."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from tests.support.hostile_texts import PIECES

from slinky.api import crds
from slinky.kube.types import Object

#: Names of fields in pod templates and containers, which builders and rules read.
POD_FIELDS = (
    "spec", "metadata", "labels", "annotations", "containers", "initContainers", "volumes", "hostname", "affinity",
    "env", "name", "image", "resources", "limits", "requests", "cpu", "memory", "ports", "volumeMounts",
    "securityContext",
)  # fmt: skip
WORDS = ("slurm", "gpu-0", "a", "1", "10m", "CPUs=2", "x/y:1")
NUMBERS = (-(2**63), -1, 0, 1, 65_533, 2**31 - 1, 2**63 - 1)
#: Fields that are chosen at each level of an object, and levels of objects whose content the schema does not describe.
FIELDS_MAX, LEVELS_MAX = 5, 3


V = TypeVar("V", bound=Object)


def admitted_object(kind: type[V], seed: int) -> V | None:
    """An object of one of our kinds that the API server admits; None if our own view of the kind refuses it."""
    metadata = {"name": "slurm", "namespace": "ns", "uid": "u"}
    try:
        return msgspec.convert({"metadata": metadata, "spec": admitted_spec(kind.__name__, seed)}, kind)
    except msgspec.ValidationError:
        return None


def admitted_spec(kind: str, seed: int) -> Any:
    """A spec of one of our kinds that the structure of its schema admits; patterns of texts are not observed."""
    (definition,) = (item for item in crds.DEFINITIONS if item["spec"]["names"]["kind"] == kind)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return SchemaValues(seed).admitted(schema["properties"]["spec"])


class SchemaValues:
    """Generates values; equal seeds give equal values."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 -- values for tests

    def admitted(self, schema: dict[str, Any]) -> Any:
        """A value that the schema admits."""
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        if schema.get("properties"):
            return self._object(schema)
        makers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._map(schema),
            "array": lambda: [self.admitted(schema["items"]) for _ in range(self._rng.randint(0, 3))],
            "string": self.text,
            "integer": lambda: self._integer(schema),
            "boolean": lambda: self._rng.random() < 0.5,
        }
        maker = makers.get(schema.get("type", ""))
        return maker() if maker else self.value()

    def text(self) -> str:
        """A usual text, or a hostile one; sometimes a long one."""
        if self._rng.random() < 0.3:
            return self._rng.choice(WORDS)
        pieces = "".join(self._rng.choices(PIECES, k=self._rng.randint(0, 4)))
        return (pieces * self._rng.choice([1, 1, 1, 1000]))[:20_000]

    def value(self, levels: int = LEVELS_MAX) -> Any:
        """Any JSON."""
        count = self._rng.randint(0, 3)
        match self._rng.randint(0, 5 if levels else 3):
            case 0:
                return self._rng.choice([None, True, False, 1.5])
            case 1:
                return self._rng.choice(NUMBERS)
            case 2 | 3:
                return self.text()
            case 4:
                return [self.value(levels - 1) for _ in range(count)]
        names = [self._rng.choice([*POD_FIELDS, self.text()]) for _ in range(count)]
        return {name: self.value(levels - 1) for name in names}

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties = schema["properties"]
        count = self._rng.randint(0, min(FIELDS_MAX, len(properties)))
        names = {*schema.get("required", ()), *self._rng.sample(sorted(properties), count)}
        return {name: self.admitted(properties[name]) for name in sorted(names)}

    def _map(self, schema: dict[str, Any]) -> dict[str, Any]:
        inner, count = schema.get("additionalProperties"), self._rng.randint(0, 3)
        if isinstance(inner, dict):
            return {self.text(): self.admitted(inner) for _ in range(count)}
        return {self._rng.choice(POD_FIELDS): self.value() for _ in range(count)}

    def _integer(self, schema: dict[str, Any]) -> int:
        low, high = schema.get("minimum", NUMBERS[0]), schema.get("maximum", NUMBERS[-1])
        number: int = self._rng.choice([low, high, *(number for number in NUMBERS if low <= number <= high)])
        return number
