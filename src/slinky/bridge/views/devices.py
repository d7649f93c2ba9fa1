# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Devices that drivers offer, and the claims on them."""

from typing import Any

import msgspec

from slinky.kube import Object, Resource, View


class Attribute(View, frozen=True):
    """A value that a driver tells of a device."""

    number: int | None = msgspec.field(default=None, name="int")


class Device(View, frozen=True):
    """One device of a node."""

    name: str
    attributes: dict[str, Attribute] = {}


class Pool(View, frozen=True):
    """The pool that a slice is part of."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(View, frozen=True):
    """Devices that one driver has on one node."""

    driver: str
    pool: Pool
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class Slice(Object, frozen=True):
    """A ResourceSlice."""

    spec: SliceSpec


class Cel(View, frozen=True):
    """An expression over devices."""

    expression: str = ""


class DeviceSelector(View, frozen=True):
    """Which devices belong to a class."""

    cel: Cel | None = None


class DeviceClassSpec(View, frozen=True):
    """The devices of a class, and the extended resource by which they can be asked for."""

    extended_resource_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object, frozen=True):
    """A DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class ExactRequest(View, frozen=True):
    """So many devices of a class."""

    device_class_name: str = ""
    count: int = 1
    allocation_mode: str = "ExactCount"
    selectors: tuple[DeviceSelector, ...] = ()
    admin_access: bool = False


class DeviceRequest(View, frozen=True):
    """One request of a claim."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[Any, ...] = ()


class Wanted(View, frozen=True):
    """The requests of a claim."""

    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(View, frozen=True):
    """What a claim asks for."""

    devices: Wanted = Wanted()


class Result(View, frozen=True):
    """A device that a claim was given."""

    request: str
    driver: str
    pool: str
    device: str


class Results(View, frozen=True):
    """The devices that a claim was given."""

    results: tuple[Result, ...] = ()


class Allocation(View, frozen=True):
    """What a claim was given."""

    devices: Results = Results()


class Consumer(View, frozen=True):
    """Who may use a claim."""

    name: str = ""
    uid: str = ""
    resource: str = ""


class ResourceClaimStatus(View, frozen=True):
    """What became of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Object, frozen=True, gc=True):
    """A ResourceClaim."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(View, frozen=True, gc=True):
    """The claim that a template makes."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ClaimTemplate(Object, frozen=True, gc=True):
    """A ResourceClaimTemplate."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", Slice, namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", ResourceClaim)
CLAIM_TEMPLATES = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplate)
