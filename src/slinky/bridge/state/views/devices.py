# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Devices that drivers offer, and the claims on them."""

from typing import Any

import msgspec

from slinky.bridge.state.views.pods import NodeSelector
from slinky.kube import Object, Resource, View


class Attribute(View, frozen=True):
    """A value that a driver tells of a device: one of these."""

    number: int | None = msgspec.field(default=None, name="int")
    text: str | None = msgspec.field(default=None, name="string")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None


class Amount(View, frozen=True):
    """A quantity of something that a device or a counter has."""

    value: str | int = 0


class CounterUse(View, frozen=True):
    """What a device takes of a set of counters that it shares with others."""

    counter_set: str = ""
    counters: dict[str, Amount] = {}


class DeviceTaint(View, frozen=True):
    """Why a device should be left alone."""

    key: str = ""
    effect: str = ""


class Device(View, frozen=True):
    """One device of a node."""

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Amount] = {}
    consumes_counters: tuple[CounterUse, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class Pool(View, frozen=True):
    """The pool that a slice is part of."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class CounterSet(View, frozen=True):
    """What the devices of a pool share, under one name."""

    name: str
    counters: dict[str, Amount] = {}


class ResourceSliceSpec(View, frozen=True):
    """Devices that one driver has on one node."""

    driver: str
    pool: Pool
    node_name: str = ""
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """A ResourceSlice."""

    spec: ResourceSliceSpec


class Opaque(View, frozen=True, gc=True):
    """Settings that only a driver understands."""

    driver: str = ""
    parameters: Any = None


class Cel(View, frozen=True):
    """An expression over devices."""

    expression: str = ""


class DeviceSelector(View, frozen=True):
    """Which devices belong to a class."""

    cel: Cel | None = None


class ClassConfig(View, frozen=True, gc=True):
    """Settings that come with every device of a class."""

    opaque: Opaque | None = None


class DeviceClassSpec(View, frozen=True, gc=True):
    """The devices of a class, and the extended resource by which they can be asked for."""

    extended_resource_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[ClassConfig, ...] = ()


class DeviceClass(Object, frozen=True, gc=True):
    """A DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequest(View, frozen=True):
    """How much is wanted of devices that several may share."""

    requests: dict[str, str | int] = {}


class ExactRequest(View, frozen=True):
    """So many devices of a class."""

    device_class_name: str = ""
    count: int = 1
    allocation_mode: str = "ExactCount"
    selectors: tuple[DeviceSelector, ...] = ()
    admin_access: bool = False
    capacity: CapacityRequest = CapacityRequest()


class Alternative(ExactRequest, frozen=True):
    """One way to meet a request."""

    name: str = ""


class DeviceRequest(View, frozen=True):
    """One request of a claim: exact, or alternatives of which the first counts that can be had."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[Alternative, ...] = ()


class Constraint(View, frozen=True):
    """How the devices of some requests must be related."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceConfig(View, frozen=True, gc=True):
    """Settings for the devices of some requests; in an allocation also where they come from."""

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None
    source: str = ""


class ClaimDevices(View, frozen=True, gc=True):
    """The requests of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaimSpec(View, frozen=True, gc=True):
    """What a claim asks for."""

    devices: ClaimDevices = ClaimDevices()


class AllocatedDevice(View, frozen=True):
    """A device that a claim was given."""

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")


class AllocatedDevices(View, frozen=True, gc=True):
    """The devices that a claim was given."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class Allocation(View, frozen=True, gc=True):
    """What a claim was given, and where."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(View, frozen=True):
    """Who may use a claim."""

    name: str = ""
    uid: str = ""
    resource: str = ""
    api_group: str = ""


class ResourceClaimStatus(View, frozen=True, gc=True):
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


RESOURCE_SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", ResourceClaim)
CLAIM_TEMPLATES = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplate)
