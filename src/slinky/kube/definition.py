# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: a schema of `slinky.kube.schema` with names, columns and subresources around it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slinky.kube.marks import Schema
from slinky.kube.schema import description_of, schema_of


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
