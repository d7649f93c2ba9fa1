# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Devices of DRA drivers, device classes and resource claims."""

from typing import Any

import msgspec

from slinky.bridge.views.pods import NodeSelector
from slinky.kube import Object, Resource, View


class Attribute(View, frozen=True):
    """An attribute of a device; one of the fields has a value."""

    number: int | None = msgspec.field(default=None, name="int")
    text: str | None = msgspec.field(default=None, name="string")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None


class Amount(View, frozen=True):
    """A quantity of a capacity or counter."""

    value: str | int = 0


class CounterUse(View, frozen=True):
    """What a device consumes of a counter set that it shares with other devices."""

    counter_set: str = ""
    counters: dict[str, Amount] = {}


class DeviceTaint(View, frozen=True):
    """A taint of a device."""

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
    """The pool of a slice."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class CounterSet(View, frozen=True):
    """Counters that the devices of a pool share."""

    name: str
    counters: dict[str, Amount] = {}


class ResourceSliceSpec(View, frozen=True):
    """Devices of one driver on one node."""

    driver: str
    pool: Pool
    node_name: str = ""
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """A ResourceSlice."""

    spec: ResourceSliceSpec


class Opaque(View, frozen=True, gc=True):
    """Configuration for a driver."""

    driver: str = ""
    parameters: Any = None


class Cel(View, frozen=True):
    """A CEL expression that selects devices."""

    expression: str = ""


class DeviceSelector(View, frozen=True):
    """A selector of devices."""

    cel: Cel | None = None


class ClassConfig(View, frozen=True, gc=True):
    """Configuration for all devices of a class."""

    opaque: Opaque | None = None


class DeviceClassSpec(View, frozen=True, gc=True):
    """The devices of a class, and the extended resource that requests them."""

    extended_resource_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[ClassConfig, ...] = ()


class DeviceClass(Object, frozen=True, gc=True):
    """A DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequest(View, frozen=True):
    """Requested amounts of the capacities of a shared device."""

    requests: dict[str, str | int] = {}


class ExactRequest(View, frozen=True):
    """A request for a number of devices of a class."""

    device_class_name: str = ""
    count: int = 1
    allocation_mode: str = "ExactCount"
    selectors: tuple[DeviceSelector, ...] = ()
    admin_access: bool = False
    capacity: CapacityRequest = CapacityRequest()


class Alternative(ExactRequest, frozen=True):
    """An alternative of a request."""

    name: str = ""


class DeviceRequest(View, frozen=True):
    """A request of a claim: exact, or a list of alternatives of which the first available one is used."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[Alternative, ...] = ()


class Constraint(View, frozen=True):
    """A constraint on the devices of some requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceConfig(View, frozen=True, gc=True):
    """Configuration for the devices of some requests."""

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None
    source: str = ""


class ClaimDevices(View, frozen=True, gc=True):
    """The requests, constraints and configuration of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaimSpec(View, frozen=True, gc=True):
    """The spec of a claim."""

    devices: ClaimDevices = ClaimDevices()


class AllocatedDevice(View, frozen=True):
    """A device of an allocation."""

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")


class AllocatedDevices(View, frozen=True, gc=True):
    """The devices of an allocation and their configuration."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class Allocation(View, frozen=True, gc=True):
    """The allocation of a claim."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(View, frozen=True):
    """A user of a claim."""

    name: str = ""
    uid: str = ""
    resource: str = ""
    api_group: str = ""


class ResourceClaimStatus(View, frozen=True, gc=True):
    """The status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(Object, frozen=True, gc=True):
    """A ResourceClaim."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(View, frozen=True, gc=True):
    """The spec of a claim template."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ClaimTemplate(Object, frozen=True, gc=True):
    """A ResourceClaimTemplate."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


RESOURCE_SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False)
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", ResourceClaim)
CLAIM_TEMPLATES = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplate)
