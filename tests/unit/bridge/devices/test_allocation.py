# SPDX-License-Identifier: Apache-2.0
"""From the devices and cores of a job to the requests of a pod."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import GPU_DRIVER, cpu_groups, cpu_singles, device_class, gpus, pod

from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices import allocation, requests
from slinky.bridge.devices.allocation import DeviceGrant, DevicesInUse, MappedRequest
from slinky.bridge.devices.classes import Unclaimable, build_catalog
from slinky.bridge.devices.cores import DeviceId
from slinky.bridge.devices.inventory import CPUS, GresKind, build_inventory
from slinky.bridge.devices.requests import ClassRequest
from slinky.bridge.state.devices import allocated_devices
from slinky.bridge.views import ResourceClaim, ResourceClaimSpec
from slinky.slurm import Gres, NodeResources

CATALOG = build_catalog([device_class(resource="example.com/gpu")])
GPU = GresKind("gpu", GPU_DRIVER)
EIGHT = build_inventory([gpus(8)], [GPU_DRIVER])
DEVICES = [item.id for item in EIGHT.kinds[GPU]]


def free(_: DeviceId) -> bool:
    return False


def need(count: int, name: str = "r", kind: GresKind = GPU) -> MappedRequest:
    return MappedRequest(ClassRequest(name, "c", count), kind)


def given_on(inventory_: Any, *found: Gres, expected_text: str = "", **more: Any) -> DeviceGrant:
    return allocation.read_grant(NodeResources("n1", gres=found, **more), inventory_, expected_text)


# --- what pods ask for


def test_every_container_has_a_request_of_its_own() -> None:
    limits = {"resources": {"limits": {"example.com/gpu": "2", "cpu": "1"}}}
    spec = {
        "containers": [{"name": "a", **limits}, {"name": "b", **limits}],
        "initContainers": [{"name": "i", **limits}],
    }
    found = requests.extended_resource_requests(pod(spec=spec), CATALOG)
    assert [(ask.container, ask.device_class, ask.count) for ask in found] == [
        ("i", "lab-gpu", 2),
        ("a", "lab-gpu", 2),
        ("b", "lab-gpu", 2),
    ]
    assert len({ask.name for ask in found}) == 3


def claim_spec(**exactly: Any) -> ResourceClaimSpec:
    request = {"name": "r", "exactly": {"deviceClassName": "c", **exactly}}
    return msgspec.convert({"devices": {"requests": [request]}}, ResourceClaimSpec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"requests": [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "count": 2}]}]},
            "no alternative of request r is available: no node has 2 of device class c",
        ),
        ({"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]}, "all devices"),
        ({"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}]}, "adminAccess"),
        ({"requests": [], "constraints": [{"distinctAttribute": "d/numa"}]}, "distinctAttribute d/numa"),
        (
            {"config": [{"opaque": {"driver": "dra.cpu", "parameters": {"cpuConfig": {"cpuset": "0"}}}}]},
            "Slurm chooses the CPUs",
        ),
        (
            {"requests": [{"name": "r", "exactly": {"capacity": {"requests": {"a": "1", "b": "2"}}}}]},
            "several capacities",
        ),
    ],
)
def test_unsupported_claims_are_rejected(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Unclaimable, match=message):
        requests.claim_requests(msgspec.convert({"devices": spec}, ResourceClaimSpec), lambda _: False)


@pytest.mark.parametrize(
    ("present", "chosen"), [({"big", "small"}, "r/one"), ({"small"}, "r/many"), ({"old"}, "r/rest")]
)
def test_the_first_alternative_that_some_node_has_is_chosen(present: set[str], chosen: str) -> None:
    options = [
        {"name": "one", "deviceClassName": "big"},
        {"name": "all", "deviceClassName": "small", "allocationMode": "All"},  # never: Slurm cannot count it
        {"name": "many", "deviceClassName": "small", "count": 4},
        {"name": "rest", "deviceClassName": "old", "count": 8},
    ]
    spec = msgspec.convert({"devices": {"requests": [{"name": "r", "firstAvailable": options}]}}, ResourceClaimSpec)
    (found,) = requests.claim_requests(spec, lambda ask: ask.device_class in present)
    assert (found.name, found.names) == (chosen, {chosen, "r"})


def test_requests_carry_their_selectors_and_capacity() -> None:
    (found,) = requests.claim_requests(claim_spec(count=2, selectors=[{"cel": {"expression": "true"}}]), bool)
    assert (found.count, found.expressions, found.capacity) == (2, ("true",), "")
    (found,) = requests.claim_requests(claim_spec(capacity={"requests": {"dra.cpu/cpu": "40"}}), bool)
    assert (found.count, found.capacity) == (40, "dra.cpu/cpu")


# --- devices


def test_requests_get_exactly_the_allocated_devices() -> None:
    found = given_on(EIGHT, Gres("gpu", GPU_DRIVER, 3, "1,4-5"))
    assert [at.device for at in found.devices_of(GPU)] == ["gpu-1", "gpu-4", "gpu-5"]


def test_an_allocation_without_indexes_is_rejected() -> None:
    with pytest.raises(Unclaimable, match="without their indexes"):
        given_on(EIGHT, Gres("gpu", GPU_DRIVER, 2, None))


def test_only_the_indexes_that_have_a_device_are_used() -> None:
    """A host with a slurmd has 12 GPUs in gres.conf, its driver offers 8: a whole-node job gets the indexes of all."""
    whole = given_on(EIGHT, Gres("gpu", GPU_DRIVER, 12, "0-11"), expected_text=f"gpu:{GPU_DRIVER}:12")
    assert whole.devices_of(GPU) == DEVICES
    part = given_on(EIGHT, Gres("gpu", GPU_DRIVER, 2, "7-8"), expected_text=f"gpu:{GPU_DRIVER}:12")
    (share,) = allocation.allocate_requests([need(1)], part, free)
    assert share.devices == DEVICES[7:]
    with pytest.raises(Unclaimable, match="the pod needs 2; the drivers of the node do not offer gpu 8"):
        allocation.allocate_requests([need(2)], part, free)


@pytest.mark.parametrize(
    ("expected_text", "expected"),
    [("gpu:a:2,gpu:b:2", {"a": ["gpu-1"], "b": ["gpu-2"]}), ("gpu:b:2,gpu:a:2(S:0)", {"b": ["gpu-3"], "a": ["gpu-0"]})],
)
def test_slurm_counts_the_index_through_all_types_of_a_name(expected_text: str, expected: dict[str, list[str]]) -> None:
    """Measured on slurmctld; the order is that of its own list, and a type of which nothing is given has no index."""
    both = build_inventory(
        [gpus(2, "a", pool="p"), gpus(2, "b", first=2, pool="q")],
        [GPU_DRIVER],
        [DeviceProfile(driver=GPU_DRIVER, type_attribute="model")],
    )
    found = given_on(
        both, Gres("gpu", "a", 1, "1"), Gres("gpu", "b", 1, "2"), Gres("gpu", "c", 0, None), expected_text=expected_text
    )
    assert {kind.type: [at.device for at in ats] for kind, ats in found.devices.items()} == expected
    assert len(found.devices_of(GresKind("gpu"))) == 2


def test_a_device_in_use_by_another_claim_is_waited_for() -> None:
    with pytest.raises(DevicesInUse):
        allocation.allocate_requests([need(2)], DeviceGrant({GPU: DEVICES[:2]}), lambda at: at.device == "gpu-0")


def test_an_allocation_that_is_too_small_is_rejected() -> None:
    with pytest.raises(Unclaimable, match=r"allocated 2 of gpu:gpu\.example\.com, but the pod needs 3"):
        allocation.allocate_requests([need(3)], DeviceGrant({GPU: DEVICES[:2]}), free)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.sets(st.integers(0, 7)))
def test_no_device_is_allocated_twice_or_while_in_use(counts: list[int], busy: set[int]) -> None:
    needs = [need(count, f"r{number}") for number, count in enumerate(counts)]
    try:
        found = allocation.allocate_requests(needs, DeviceGrant({GPU: DEVICES}), lambda at: int(at.device[4:]) in busy)
    except (DevicesInUse, Unclaimable):
        assert sum(counts) > 8 - len(busy)
        return
    everything = [at for share in found for at in share.devices]
    assert len(everything) == len(set(everything)) == sum(counts)
    assert not {int(at.device[4:]) for at in everything} & busy


# --- cores


def cpus(*, grouped: bool, cores: int = 64, threads: int = 1) -> Any:
    if not grouped:
        return build_inventory([cpu_singles(cores=cores, threads=threads)], ["dra.cpu"])
    half, last = cores // 2, cores * threads - 1
    layout = f"0-{last}>{cores}" if threads == 2 else f"0-{last}"
    upper = [f",{cores}-{cores + half - 1}", f",{cores + half}-{last}"] if threads == 2 else ["", ""]
    sets = {"numa0": f"0-{half - 1}{upper[0]}", "numa1": f"{half}-{cores - 1}{upper[1]}"}
    return build_inventory([cpu_groups(sets, layout)], ["dra.cpu"])


def test_a_claim_gets_the_cpus_of_the_allocated_cores() -> None:
    own = cpus(grouped=False, cores=8, threads=2)
    given_ = given_on(own, core_bitmap="0x78", sockets_per_node=1, cores_per_socket=8)
    (share,) = allocation.allocate_requests([need(5, kind=CPUS)], given_, free)
    assert share.cpus == [3, 4, 5, 11, 12]
    words = allocation.allocation_status([share], given_, "n1", [])
    assert [result["device"] for result in words["devices"]["results"]] == [f"cpudev{i:03}" for i in (3, 4, 5, 11, 12)]


def test_groups_allow_more_cpus_than_a_claim_has_devices() -> None:
    own = cpus(grouped=True)
    given_ = given_on(own, core_bitmap="0x0000000FFFFFFFF8", sockets_per_node=2, cores_per_socket=32)
    shares = allocation.allocate_requests([need(33, kind=CPUS)], given_, free)
    words = allocation.allocation_status(shares, given_, "n1", [])
    results = words["devices"]["results"]
    assert [(one["device"], one["consumedCapacity"]) for one in results] == [
        ("numa0", {"dra.cpu/cpu": "29"}),
        ("numa1", {"dra.cpu/cpu": "4"}),
    ]
    (setting,) = words["devices"]["config"]
    assert setting["opaque"]["parameters"] == {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "3-35"}}
    assert words == allocation.allocation_status(shares, given_, "n1", [])
    with pytest.raises(Unclaimable, match="at most 32"):
        single = cpus(grouped=False)
        allocation.allocate_requests(
            [need(33, kind=CPUS)], given_on(single, core_bitmap="0x1FFFFFFFF", cores_per_socket=64), free
        )


def test_a_claim_for_groups_uses_the_cpus_in_its_configuration() -> None:
    own = cpus(grouped=True)
    given_ = given_on(own, core_bitmap="0x1C0000000", sockets_per_node=2, cores_per_socket=32)
    words = allocation.allocation_status(
        allocation.allocate_requests([need(3, kind=CPUS)], given_, free), given_, "n1", []
    )
    claim = msgspec.convert({"metadata": {"name": "c"}, "status": {"allocation": words}}, ResourceClaim)
    assert (
        set(allocated_devices(claim))
        == given_.device_ids()
        == {DeviceId("dra.cpu", "n1", f"cpu {cpu}") for cpu in (30, 31, 32)}
    )


@pytest.mark.parametrize("cpuset", ["0-99999999999", "0-8191,0-8191", "9" * 5000, "\u00b2", ""])
def test_a_claim_whose_cpus_are_not_readable_uses_its_whole_group(cpuset: str) -> None:
    share = {"request": "r", "driver": "dra.cpu", "pool": "n1", "device": "numa0", "shareID": "s"}
    config = {"opaque": {"driver": "dra.cpu", "parameters": {"cpuConfig": {"cpuset": cpuset}}}}
    status = {"allocation": {"devices": {"results": [share], "config": [config]}}}
    claim = msgspec.convert({"metadata": {"name": "c"}, "status": status}, ResourceClaim)
    assert allocated_devices(claim) == [DeviceId("dra.cpu", "n1", "numa0")]


def test_slurm_and_the_driver_must_agree_about_the_number_of_cores() -> None:
    with pytest.raises(Unclaimable, match="Slurm has 9 cores on n1, but the CPU driver offers 8"):
        given_on(cpus(grouped=False, cores=8), core_bitmap="0x1", sockets_per_node=1, cores_per_socket=9)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sets(st.integers(0, 7), min_size=1),
    st.sets(st.integers(0, 15)),
    st.booleans(),
)
def test_no_core_is_allocated_twice(counts: list[int], granted: set[int], busy: set[int], grouped: bool) -> None:
    own = cpus(grouped=grouped, cores=8, threads=2)
    bitmap = hex(sum(1 << core for core in granted))
    given_ = given_on(own, core_bitmap=bitmap, sockets_per_node=1, cores_per_socket=8)
    busy_keys = {own.cpus.cpu_id(cpu) for cpu in busy}
    needs = [need(count, f"r{number}", CPUS) for number, count in enumerate(counts)]
    try:
        found = allocation.allocate_requests(needs, given_, lambda at: at in busy_keys)
    except (DevicesInUse, Unclaimable):
        free_cores = sum(not {core, core + 8} & busy for core in granted)
        assert sum(-(-count // 2) for count in counts) > free_cores
        return
    cores_of = [{cpu % 8 for cpu in share.cpus} for share in found]
    assert [len(share.cpus) for share in found] == counts
    assert sum(map(len, cores_of)) == len(set().union(*cores_of))
    assert set().union(*cores_of) <= granted
    assert not {cpu for share in found for cpu in share.cpus} & busy
