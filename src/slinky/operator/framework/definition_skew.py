# SPDX-License-Identifier: Apache-2.0
"""Compares the CustomResourceDefinitions of the cluster with those of this version of the operator.

The API server drops fields that its definitions lack, without an error. With older definitions a new setting would have
no effect, and nothing would say why. The published OpenAPI document is compared, because every account may read it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from slinky.api import crds
from slinky.kube import KubeClient
from slinky.kube.errors import KubeError
from slinky.observe import Log
from slinky.operator.metrics import DEFINITION_FIELDS

log = Log("slinky.operator.definitions")

#: Seconds between two comparisons.
INTERVAL = 600.0
#: Fields that a message names; the rest is counted.
NAMED = 5
UPGRADE_DEFINITIONS = "upgrade the chart slurm-operator-crds (docs/operator/upgrade-and-uninstall.md)"
UPGRADE_OPERATOR = "upgrade the chart slurm-operator"

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class DefinitionSkew:
    """The fields of one kind that only the operator or only the cluster has."""

    kind: str
    is_served: bool
    missing: tuple[str, ...] = ()
    additional: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """What differs, what it means, and the next step."""
        if not self.is_served:
            yield f"The API server does not serve {self.kind}; {UPGRADE_DEFINITIONS}."
        if self.missing:
            fields = _name(self.missing)
            yield (
                f"The definition of {self.kind} is older than the operator: the API server drops {fields}, which "
                f"therefore have no effect; {UPGRADE_DEFINITIONS}."
            )
        if self.additional:
            fields = _name(self.additional)
            yield (
                f"The definition of {self.kind} is newer than the operator, or of another operator: it ignores "
                f"{fields}; {UPGRADE_OPERATOR}."
            )


def compare(served: Mapping[str, Schema], definitions: Iterable[Schema] = crds.DEFINITIONS) -> list[DefinitionSkew]:
    """Every kind that differs; `served` has the schemas of the cluster by kind."""
    found = []
    for definition in definitions:
        kind = definition["spec"]["names"]["kind"]
        if kind not in served:
            found.append(DefinitionSkew(kind, is_served=False))
            continue
        ours = _fields(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        theirs = _fields(served[kind])
        if ours != theirs:
            found.append(DefinitionSkew(kind, True, tuple(sorted(ours - theirs)), tuple(sorted(theirs - ours))))
    return found


def published_schemas(document: Schema) -> dict[str, Schema]:
    """The schemas of an OpenAPI document by kind."""
    schemas: Mapping[str, Schema] = document.get("components", {}).get("schemas", {})
    return {
        item["kind"]: schema
        for schema in schemas.values()
        for item in schema.get("x-kubernetes-group-version-kind", ())
        if "spec" in schema.get("properties", {})
    }


async def report_definition_skew(client: KubeClient) -> None:
    """Compare regularly; each new difference is logged once, and a gauge counts the fields."""
    reported: set[str] = set()
    while True:
        try:
            skews = await read_skew(client)
        except KubeError as error:
            log.debug("the definitions cannot be read; it is tried again", error=str(error))
        else:
            sentences = {sentence: None for skew in skews for sentence in skew.sentences()}
            for sentence in sentences:
                if sentence not in reported:
                    log.warning(sentence)
            reported = set(sentences)
            _publish(skews)
        await client.clock.sleep(INTERVAL)


async def read_skew(client: KubeClient) -> list[DefinitionSkew]:
    """Compare the definitions that the API server publishes with ours."""
    group = crds.DEFINITIONS[0]["spec"]["group"]
    version = crds.DEFINITIONS[0]["spec"]["versions"][0]["name"]
    body = await client.send("GET", f"/openapi/v3/apis/{group}/{version}")
    return compare(published_schemas(msgspec.json.decode(body)))


def _publish(skews: Sequence[DefinitionSkew]) -> None:
    by_kind = {skew.kind: skew for skew in skews}
    for definition in crds.DEFINITIONS:
        kind = definition["spec"]["names"]["kind"]
        skew = by_kind.get(kind, DefinitionSkew(kind, is_served=True))
        DEFINITION_FIELDS.labels(kind, "missing").set(len(skew.missing))
        DEFINITION_FIELDS.labels(kind, "additional").set(len(skew.additional))


def _fields(schema: Schema) -> frozenset[str]:
    """The paths of the fields below spec and status."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    return frozenset(path for part in ("spec", "status") for path in _paths(properties.get(part, {}), part))


def _paths(schema: Schema, path: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _paths(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(name), Mapping):
            yield from _paths(inner, f"{path}[]" if name == "items" else f"{path}.*")


def _name(fields: Sequence[str]) -> str:
    """The outermost fields as a list for people."""
    outer = [field for field in fields if not any(field.startswith((f"{other}.", f"{other}[")) for other in fields)]
    rest = len(outer) - NAMED
    return ", ".join(outer[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
