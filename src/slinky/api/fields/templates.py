# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Pieces of core/v1 that our kinds embed: containers, pods, Services, claims.

They are kept as they were written and the schema says nothing about their inside: the API server checks a pod when
the operator makes it, and a newer Kubernetes has fields that we have never heard of.
"""

from typing import Annotated, Any

from msgspec import Meta
from msgspec.json import decode, encode

from slinky.kube.schema import described, free_form, list_atomic, struct_atomic
from slinky.kube.types import View

Container = Annotated[dict[str, Any], free_form()]
Port = Annotated[int, Meta(ge=0, le=65535)]
ServicePort = Annotated[Port, described("Port of the Service; 0 is the component's well-known one.")]
Replicas = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TemplateMeta(View, frozen=True):
    """Labels and annotations to add."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplate(View, frozen=True):
    """Merged over the pod that the operator builds."""

    metadata: Annotated[TemplateMeta, described("Labels and annotations of the pods.")] = TemplateMeta()
    spec: Annotated[
        dict[str, Any], free_form(), described("A core/v1 PodSpec, merged over the one that is built.")
    ] = {}


class ServicePart(View, frozen=True):
    """The Service in front of a component."""

    metadata: Annotated[TemplateMeta, described("Labels and annotations of the Service.")] = TemplateMeta()
    spec: Annotated[
        dict[str, Any], free_form(), described("A core/v1 ServiceSpec; externalIPs are ignored (CVE-2020-8554).")
    ] = {}
    port: ServicePort = 0
    node_port: Annotated[Port, described("Node port of the Service, for types that have one.")] = 0


class ExternalHost(View, frozen=True):
    """Where a component outside of Kubernetes is."""

    host: Annotated[str, Meta(min_length=1, max_length=253), described("Host name or address.")]
    port: Annotated[int, Meta(ge=1, le=65535), described("TCP port.")]


class PersistentVolumeClaimSpec(View, frozen=True):
    """A core/v1 PersistentVolumeClaimSpec."""

    access_modes: Annotated[tuple[str, ...], list_atomic()] = ()
    selector: Annotated[dict[str, Any], free_form()] = {}
    resources: Annotated[dict[str, Any], free_form()] = {}
    volume_name: str = ""
    storage_class_name: Annotated[str | None, described("Empty means no class, absent the default class.")] = None
    volume_mode: str = ""
    data_source: Annotated[dict[str, Any], free_form(), struct_atomic()] = {}
    data_source_ref: Annotated[dict[str, Any], free_form()] = {}
    volume_attributes_class_name: str = ""

    def claim_spec(self) -> dict[str, Any]:
        """As it goes into a claim."""
        return {name: value for name, value in decode(encode(self)).items() if name in _CLAIM_FIELDS}


_CLAIM_FIELDS = frozenset(PersistentVolumeClaimSpec.__struct_encode_fields__)
