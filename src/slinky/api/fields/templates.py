# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Parts of core/v1 that our kinds embed: containers, pods, Services, claims.

The schema leaves their contents open and they are kept as written: the API server validates a pod when the operator
creates it, and newer versions of Kubernetes may have fields that this code does not know.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from msgspec.json import decode, encode

from slinky.kube.schema import described, free_form, list_atomic, struct_atomic
from slinky.kube.types import View

Container = Annotated[dict[str, Any], free_form()]
Port = Annotated[int, Meta(ge=0, le=65535)]
ServicePort = Annotated[Port, described("Port of the Service; 0 means the default port of the component.")]
Replicas = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TemplateMeta(View, frozen=True):
    """Labels and annotations to add."""

    labels: Annotated[dict[str, str], described("Labels to add.")] = {}
    annotations: Annotated[dict[str, str], described("Annotations to add.")] = {}


class PodTemplate(View, frozen=True):
    """Settings that override those of the pod that the operator builds."""

    metadata: Annotated[TemplateMeta, described("Labels and annotations of the pods.")] = TemplateMeta()
    spec: Annotated[
        dict[str, Any], free_form(), described("A core/v1 PodSpec; its fields override those that the operator sets.")
    ] = {}


class ServicePart(View, frozen=True):
    """Settings of the Service of a component."""

    metadata: Annotated[TemplateMeta, described("Labels and annotations of the Service.")] = TemplateMeta()
    spec: Annotated[
        dict[str, Any],
        free_form(),
        described(
            "A core/v1 ServiceSpec; its fields override those that the operator sets."
            " externalIPs are ignored (CVE-2020-8554)."
        ),
    ] = {}
    port: ServicePort = 0
    node_port: Annotated[Port, described("Node port of the Service, for the types NodePort and LoadBalancer.")] = 0


class ExternalHost(View, frozen=True):
    """Address of a component that runs outside of Kubernetes."""

    host: Annotated[str, Meta(min_length=1, max_length=253), described("Host name or address.")]
    port: Annotated[int, Meta(ge=1, le=65535), described("TCP port.")]


class PersistentVolumeClaimSpec(View, frozen=True):
    """A core/v1 PersistentVolumeClaimSpec."""

    access_modes: Annotated[tuple[str, ...], list_atomic(), described("Access modes of the volume.")] = ()
    selector: Annotated[dict[str, Any], free_form(), described("Label selector of the volumes to consider.")] = {}
    resources: Annotated[dict[str, Any], free_form(), described("Resources that the volume must have.")] = {}
    volume_name: Annotated[str, described("Name of the PersistentVolume to bind.")] = ""
    storage_class_name: Annotated[
        str | None, described("Name of the StorageClass. Unset means the default class, empty means no class.")
    ] = None
    volume_mode: Annotated[str, described("Type of the volume: Filesystem or Block.")] = ""
    data_source: Annotated[
        dict[str, Any], free_form(), struct_atomic(), described("Snapshot or claim to restore the volume from.")
    ] = {}
    data_source_ref: Annotated[dict[str, Any], free_form(), described("Object to populate the volume from.")] = {}
    volume_attributes_class_name: Annotated[str, described("Name of the VolumeAttributesClass.")] = ""

    def claim_spec(self) -> dict[str, Any]:
        """The fields as a PersistentVolumeClaim has them."""
        return {name: value for name, value in decode(encode(self)).items() if name in _CLAIM_FIELDS}


_CLAIM_FIELDS = frozenset(PersistentVolumeClaimSpec.__struct_encode_fields__)


class VolumeClaimTemplate(NamedTuple):
    """A template of PersistentVolumeClaims. The CRD accepts any object; values of a wrong type count as absent."""

    name: str
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]


def parse_volume_claim_template(template: Mapping[str, Any]) -> VolumeClaimTemplate:
    """Parse a claim template of a spec; its name is empty if it has none."""
    meta = _mapping(template.get("metadata"))
    name = meta.get("name")
    return VolumeClaimTemplate(
        name if isinstance(name, str) else "",
        _mapping(meta.get("labels")),
        _mapping(meta.get("annotations")),
        _mapping(template.get("spec")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
