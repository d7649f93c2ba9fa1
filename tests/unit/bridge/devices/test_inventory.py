# SPDX-License-Identifier: Apache-2.0
"""The devices of a node, device profiles, and the mapping of classes to GRES."""

from typing import Any

import pytest
from tests.unit.bridge.build import GPU_DRIVER, device_class, gpus, slice_of

from slinky.bridge import config
from slinky.bridge.config import ConfigError, DeviceProfile
from slinky.bridge.devices import classes, profiles, selection
from slinky.bridge.devices import inventory as supply
from slinky.bridge.devices.classes import ClassMapping, Unclaimable
from slinky.bridge.devices.inventory import DeviceInventory, GresKind, build_inventory
from slinky.bridge.views import ResourceSlice

BY_MODEL = DeviceProfile(driver=GPU_DRIVER, type_attribute="model")
GPU = GresKind("gpu", GPU_DRIVER)


def read(
    *parts: ResourceSlice, profiles: tuple[DeviceProfile, ...] = (), drivers: tuple[str, ...] = (GPU_DRIVER,)
) -> DeviceInventory:
    return build_inventory(parts, drivers, profiles)


def map_class(request: str, expressions: tuple[str, ...], nodes: dict[str, DeviceInventory]) -> ClassMapping:
    selection.evaluate(nodes.values(), expressions)
    return classes.map_class(request, expressions, nodes)


def names_of(result: DeviceInventory, kind: GresKind) -> list[str]:
    return [item.device.name for item in result.kinds[kind]]


# --- inventories


def test_a_device_has_its_own_index() -> None:
    result = read(slice_of([{"name": "gpu-1"}, {"name": "gpu-0"}]), slice_of([{"name": "x"}], generation=0))
    assert names_of(result, GPU) == ["gpu-0", "gpu-1"]
    assert supply.format_gres(result) == "gpu:gpu.example.com:2"
    assert (
        supply.format_gres_conf(result) == "Name=gpu,Type=gpu.example.com,Count=2,File=/dev/gpu/gpu.example.com/[0-1]"
    )


def test_slices_of_one_pool_are_merged_once_all_are_there() -> None:
    halves = [gpus(1, count=2), gpus(1, first=1, count=2)]
    assert names_of(read(*halves), GPU) == ["gpu-0", "gpu-1"]
    assert read(halves[0]).incomplete_pools == ("gpu.example.com/n1",)
    assert not read(halves[0])


def test_a_newer_generation_that_is_not_complete_hides_the_older_one() -> None:
    result = read(gpus(4), gpus(2, generation=2, count=2))
    assert not result
    assert result.incomplete_pools


def test_an_index_that_means_another_device_changes_the_fingerprint() -> None:
    same = [read(gpus(2)), read(gpus(2, generation=5))]
    assert same[0].fingerprint == same[1].fingerprint
    other = [read(gpus(3)), read(gpus(2, pool="p")), read(gpus(2), profiles=(BY_MODEL,)), read()]
    assert len({result.fingerprint for result in (*same, *other)}) == 5


@pytest.mark.parametrize(
    "trouble", [{"taints": [{"key": "k", "effect": "NoSchedule"}]}, {"bindingConditions": ["attached"]}]
)
def test_a_tainted_or_conditional_device_is_not_registered(trouble: dict[str, Any]) -> None:
    result = read(slice_of([{"name": "gpu-0"}, {"name": "gpu-1", **trouble}]))
    assert names_of(result, GPU) == ["gpu-0"]


def test_slurms_notation_of_devices() -> None:
    assert supply.parse_gres("gpu:b:4(S:0-1),gpu:2,nic:x:1") == {
        GresKind("gpu", "b"): 4,
        GresKind("gpu"): 2,
        GresKind("nic", "x"): 1,
    }
    assert supply.parse_gres("") == {}


# --- profiles


def test_a_profile_gives_type_and_name() -> None:
    nic = DeviceProfile(driver="nic.example.com", gres="nic", type="roce")
    parts = (gpus(2, model="NVIDIA H100 80GB"), gpus(1, model="A100", pool="b"), slice_of([{"name": "e0"}], nic.driver))
    result = read(*parts, profiles=(BY_MODEL, nic), drivers=(GPU_DRIVER, nic.driver))
    assert supply.format_gres(result) == "gpu:a100:1,gpu:nvidia_h100_80gb:2,nic:roce:1"


def test_devices_without_a_type_are_counted_by_name() -> None:
    plain = DeviceProfile(driver=GPU_DRIVER, untyped=True)
    result = read(gpus(2), profiles=(plain,))
    assert supply.format_gres(result) == "gpu:2"
    assert supply.format_gres_conf(result) == "Name=gpu,Count=2,File=/dev/gpu/any/[0-1]"
    assert classes.map_driver((f'device.driver == "{GPU_DRIVER}"',), (plain,)) == ClassMapping(GresKind("gpu"))


def test_the_first_matching_profile_applies_and_other_devices_are_not_registered() -> None:
    chosen = (
        DeviceProfile(driver=GPU_DRIVER, match=f'device.attributes["{GPU_DRIVER}"].index == 0', ignore=True),
        DeviceProfile(driver=GPU_DRIVER, match=f'device.attributes["{GPU_DRIVER}"].index <= 1', type="first"),
    )
    result = read(gpus(3), profiles=chosen)
    assert {str(kind): names_of(result, kind) for kind in result.kinds} == {"gpu:first": ["gpu-1"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"driver": "Bad Name"}], "deviceProfiles[0] (Bad Name): driver"),
        ([{"driver": "d", "gres": "a:b"}], "gres: 'a:b' is not the name of a GRES"),
        ([{"driver": "d", "gres": "shard"}], "gres: shard is not supported"),
        ([{"driver": "d", "type": "a b"}], "type: 'a b'"),
        ([{"driver": "d", "type": "a", "typeAttribute": "model"}], "type: only one of"),
        ([{"driver": "d", "cores": True, "gres": "nic"}], "cores: CPUs have no GRES"),
        ([{"driver": "d", "match": "device.x.matches('a')"}], "match: the function matches is not supported"),
        (
            [{"driver": "d"}, {"driver": "d", "type": "x"}],
            "deviceProfiles[1] (d): match: deviceProfiles[0] already applies to every",
        ),
        ([{"driver": "d", "typAttribute": "model"}], "unknown field `typAttribute` - at `$.deviceProfiles[0]`"),
        ([{"gres": "gpu"}], "missing required field `driver`"),
        ([{"driver": 3}], "$.deviceProfiles[0].driver"),
    ],
)
def test_an_invalid_profile_is_rejected_with_its_position(given: list[Any], message: str) -> None:
    with pytest.raises(ConfigError) as expected_text:
        settings, _ = config.parse(f"deviceProfiles: {given}")
        profiles.check_profiles(settings.device_profiles)
    assert message in str(expected_text.value)


def test_valid_profiles_are_accepted() -> None:
    settings, unknown = config.parse(
        """
        deviceProfiles:
        - {driver: gpu.nvidia.com, match: 'device.attributes["gpu.nvidia.com"].type == "mig"', typeAttribute: profile}
        - {driver: gpu.nvidia.com, typeAttribute: productName}
        - {driver: dra.net, gres: nic, indexAttribute: dra.net/ifIndex}
        - {driver: cpu.example.com, cores: true}
        """
    )
    profiles.check_profiles(settings.device_profiles)
    assert not unknown


def test_profiles_of_slurm_bridge_are_converted() -> None:
    settings, unknown = config.parse(
        """
        deviceProfiles:
        - {name: cpu, driver: dra.cpu, selector: 'device.driver == "dra.cpu"', backend: {type: core-bitmap}}
        - {name: rdma, driver: dra.net, backend: {type: indexed-gres, gresName: nic}}
        """
    )
    profiles.check_profiles(settings.device_profiles)
    assert not unknown
    assert settings.device_profiles == (
        DeviceProfile(driver="dra.cpu", match='device.driver == "dra.cpu"', cores=True),
        DeviceProfile(driver="dra.net", gres="nic", type="rdma"),
    )
    with pytest.raises(ConfigError, match=r"deviceProfiles\[0\].backend.type"):
        config.parse("deviceProfiles: [{name: a, driver: d, backend: {type: other}}]")


# --- partitions of devices


def mig(name: str, slices: int, first: int = 0, kind: str = "mig") -> dict[str, Any]:
    """A GPU or a part of it; parts take counters of the GPU."""
    uses = {f"slice-{number}": {"value": "1"} for number in range(first, first + slices)}
    return {
        "name": name,
        "attributes": {"type": {"string": kind}, "profile": {"string": f"{slices}g"}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": uses}],
    }


COUNTERS: dict[str, Any] = {
    "counters": [{"name": "gpu-0", "counters": {f"slice-{i}": {"value": "1"} for i in range(4)}}]
}
PARTS = slice_of(
    [mig("gpu-0", 4, kind="gpu"), *(mig(f"gpu-0-mig-{i}", 1, i) for i in range(4)), mig("gpu-0-mig-2g", 2)], **COUNTERS
)
ONE_G = DeviceProfile(driver=GPU_DRIVER, match=f'device.attributes["{GPU_DRIVER}"].profile == "1g"', type="1g")


def test_overlapping_devices_need_a_profile_that_selects_some() -> None:
    assert "overlap in the counter gpu-0/slice-" in read(PARTS).problem
    result = read(PARTS, profiles=(ONE_G,))
    assert not result.problem
    assert supply.format_gres(result) == "gpu:1g:4"


def test_a_partition_and_its_device_cannot_be_allocated_together() -> None:
    counters = read(PARTS, profiles=(ONE_G,)).counters[GPU_DRIVER, "n1"]
    assert not counters.exceeded(["gpu-0-mig-0", "gpu-0-mig-3"])
    assert counters.exceeded(["gpu-0", "gpu-0-mig-3"]) == "gpu-0/slice-3"
    assert counters.exceeded(["gpu-0-mig-1", "gpu-0-mig-2g"])
    assert not counters.exceeded(["gpu-0-mig-2", "gpu-0-mig-2g"])


# --- what a class means


def nodes(**parts: list[ResourceSlice]) -> dict[str, DeviceInventory]:
    return {name: read(*result, profiles=(BY_MODEL,)) for name, result in parts.items()}


H, A = GresKind("gpu", "h"), GresKind("gpu", "a")
CLUSTER = nodes(
    both=[gpus(2, "H", pool="h"), gpus(2, "A", first=2, pool="a")], only_h=[gpus(4, "H")], only_a=[gpus(4, "A")]
)
MODEL = f'device.attributes["{GPU_DRIVER}"].model'
INDEX = f'device.attributes["{GPU_DRIVER}"].index'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'{MODEL} == "H"', ClassMapping(H)),
        (f'{MODEL} == "A" && {INDEX} >= 2', ClassMapping(A, frozenset({"only_a"}))),
        (f'device.driver == "{GPU_DRIVER}"', ClassMapping(GresKind("gpu"))),
        (f"{INDEX} < 2 || {INDEX} >= 2", ClassMapping(GresKind("gpu"))),
        (f"{INDEX} >= 0 && {INDEX} < 2", ClassMapping(H, frozenset({"only_h"}))),
    ],
)
def test_a_class_is_mapped_to_the_type_that_it_selects_completely(expression: str, expected: ClassMapping) -> None:
    assert map_class("the class", (expression,), CLUSTER) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{INDEX} == 3", "selects only some of the devices"),
        (f'{MODEL} == "B"', "selects no device of any node"),
        (f"{MODEL}.matches('H')", "cannot evaluate an expression of the class: the function matches"),
        ("", "cannot evaluate an expression"),
    ],
)
def test_a_class_that_cannot_be_mapped_is_rejected_with_the_reason(expression: str, message: str) -> None:
    with pytest.raises(Unclaimable, match="the class") as expected_text:
        map_class("the class", (expression,), CLUSTER)
    assert message in str(expected_text.value)


def test_several_types_without_a_common_node_cannot_be_mapped() -> None:
    with pytest.raises(Unclaimable, match="gpu:a and nic:x"):
        nic = DeviceProfile(driver="n", gres="nic", type="x")
        result = {
            "n1": read(
                gpus(1, "A"), slice_of([{"name": "e0"}], "n"), profiles=(BY_MODEL, nic), drivers=(GPU_DRIVER, "n")
            )
        }
        map_class("the class", ("true",), result)


def test_a_class_of_all_devices_of_a_driver_is_mapped_without_devices() -> None:
    only = (f'device.driver == "{GPU_DRIVER}"',)
    assert classes.map_driver(only, ()) == ClassMapping(GPU)
    assert classes.map_driver(('device.driver == "dra.cpu"',), ()) == ClassMapping(supply.CPUS)
    assert classes.map_driver(only, (BY_MODEL,)) is None
    assert classes.map_driver((*only, "true"), ()) is None


def test_a_resource_name_is_mapped_to_its_class() -> None:
    result = classes.build_catalog([device_class(resource="example.com/gpu")])
    assert result.class_of("example.com/gpu") == "lab-gpu"
    assert result.class_of("deviceclass.resource.kubernetes.io/lab-gpu") == "lab-gpu"
    assert result.class_of("deviceclass.resource.kubernetes.io/none") == "none"
    assert result.class_of("nvidia.com/gpu") is None
    assert result.drivers == {"lab-gpu", GPU_DRIVER}


def test_devices_share_an_attribute_only_if_all_have_the_same_value() -> None:
    assert classes.share_attribute(CLUSTER["only_h"], [H], "model")
    assert classes.share_attribute(CLUSTER["only_h"], [H], f"{GPU_DRIVER}/model")
    assert not classes.share_attribute(CLUSTER["both"], [H, A], "model")
    assert not classes.share_attribute(CLUSTER["both"], [H], "absent")
