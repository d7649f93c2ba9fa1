# SPDX-License-Identifier: Apache-2.0
"""Devices from a grant to requests."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.bridge import grant
from slinky.bridge.devices import Catalog, Located
from slinky.bridge.grant import Ask, Held, Unclaimable
from slinky.bridge.views import ResourceClaimSpec
from slinky.slurm import Gres, NodeResources

from .build import pod

KIND = "gpu.example.com"
CATALOG = Catalog({"example.com/gpu": KIND}, {"example.com/gpu": "lab-gpu"}, {"lab-gpu": KIND})
DEVICES = tuple(Located(KIND, "n1", f"gpu-{i}") for i in range(8))


def free(_: Located) -> bool:
    return False


def test_every_container_has_a_request_of_its_own() -> None:
    limits = {"resources": {"limits": {"example.com/gpu": "2", "cpu": "1"}}}
    found = grant.asks(pod(spec={"containers": [{"name": "a", **limits}, {"name": "b", **limits}]}), CATALOG)
    assert [(ask.container, ask.device_class, ask.count) for ask in found] == [("a", "lab-gpu", 2), ("b", "lab-gpu", 2)]
    assert len({ask.name for ask in found}) == 2


def test_exactly_the_granted_devices_are_given() -> None:
    resources = NodeResources("n1", gres=(Gres("gpu", KIND, 3, "1,4-5"),))
    found = grant.granted(resources, {KIND: DEVICES})
    assert [device.device for device in found[KIND]] == ["gpu-1", "gpu-4", "gpu-5"]


@pytest.mark.parametrize("gres", [Gres("gpu", KIND, 2, ""), Gres("gpu", KIND, 1, "9")])
def test_a_grant_that_does_not_tell_which_devices_is_refused(gres: Gres) -> None:
    with pytest.raises(Unclaimable):
        grant.granted(NodeResources("n1", gres=(gres,)), {KIND: DEVICES})


def test_a_device_that_somebody_holds_is_waited_for() -> None:
    with pytest.raises(Held):
        grant.share([Ask("r", "lab-gpu", 2)], {KIND: DEVICES[:2]}, CATALOG, lambda device: device.device == "gpu-0")


def test_a_grant_that_is_too_small_is_told() -> None:
    with pytest.raises(Unclaimable):
        grant.share([Ask("r", "lab-gpu", 3)], {KIND: DEVICES[:2]}, CATALOG, free)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sets(st.integers(0, 7)))
def test_no_device_is_given_twice_and_none_that_is_taken(counts: list[int], held: set[int]) -> None:
    asks = [Ask(f"r{i}", "lab-gpu", count) for i, count in enumerate(counts)]
    try:
        found = grant.share(asks, {KIND: DEVICES}, CATALOG, lambda device: int(device.device[4:]) in held)
    except (Held, Unclaimable):
        assert sum(counts) > 8 - len(held)
        return
    everything = [device for devices in found.values() for device in devices]
    assert len(everything) == len(set(everything)) == sum(counts)
    assert not {int(device.device[4:]) for device in everything} & held


@pytest.mark.parametrize(
    "request_",
    [
        {"name": "r", "firstAvailable": [{"name": "a"}]},
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]}},
    ],
)
def test_claims_that_slurm_cannot_count_are_told(request_: dict[str, object]) -> None:
    spec = msgspec.convert({"devices": {"requests": [request_]}}, ResourceClaimSpec)
    with pytest.raises(Unclaimable):
        grant.asks_of_claim(spec)


def test_a_claim_is_counted_as_the_type_behind_its_class() -> None:
    spec = msgspec.convert(
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "lab-gpu", "count": 2}}]}},
        ResourceClaimSpec,
    )
    assert grant.counted(grant.asks_of_claim(spec), CATALOG) == {KIND: 2}
