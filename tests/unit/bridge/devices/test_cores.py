# SPDX-License-Identifier: Apache-2.0
"""CPUs as devices, mapped to the cores of Slurm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import cpu_groups, cpu_singles, slice_of

from slinky.bounds import CPU_RANGE_MAX
from slinky.bridge.devices import cores
from slinky.bridge.devices.inventory import CPUS, build_inventory
from slinky.bridge.views import ResourceSlice


def read(*parts: ResourceSlice) -> cores.CpuTopology:
    result = build_inventory(parts, ["dra.cpu"]).cpus
    assert result is not None
    return result


def test_cores_are_sorted_by_socket_with_all_their_threads() -> None:
    result = read(cpu_singles(sockets=2, cores=2, threads=2))
    assert result.cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert (result.sockets, result.threads_per_core, result.grouped) == (2, 2, False)
    assert result.cpu_id(5).device == "cpudev005"


@pytest.mark.parametrize(
    ("groups", "layout", "expected", "sockets"),
    [
        ({"cpudevmachine": "0-3"}, "0-3", ((0,), (1,), (2,), (3,)), 1),
        ({"cpudevmachine": "0-7"}, "0-7>4", ((0, 4), (1, 5), (2, 6), (3, 7)), 1),
        ({"numa0": "0-1,4-5", "numa1": "2-3,6-7"}, "0-7>4", ((0, 4), (1, 5), (2, 6), (3, 7)), 2),
        # Reserved CPUs are in the layout and not in the group; a core that lacks a thread is left out.
        ({"cpudevmachine": "1-7"}, "0-7>4", ((1, 5), (2, 6), (3, 7)), 1),
        ({"cpudevmachine": "0-7"}, "2-7>3;0-1", ((2, 5), (3, 6), (4, 7)), 1),
    ],
)
def test_groups_list_their_cpus_and_siblings(
    groups: dict[str, str], layout: str, expected: tuple[cores.Core, ...], sockets: int
) -> None:
    result = read(cpu_groups(groups, layout))
    assert (result.cores, result.sockets, result.grouped) == (expected, sockets, True)


def test_efficiency_cores_are_left_out() -> None:
    devices = [
        {"name": f"c{i}", "attributes": {"cpuID": {"int": i}, "coreType": {"string": "e-core" if i < 2 else "p-core"}}}
        for i in range(4)
    ]
    assert read(slice_of(devices, "dra.cpu")).cores == ((2,), (3,))


def test_groups_without_a_list_of_cpus_have_no_cores() -> None:
    result = build_inventory([cpu_groups({"cpudevmachine": ""})], ["dra.cpu"])
    assert CPUS in result.kinds
    assert result.cpus is None


@given(st.sets(st.integers(0, 600)))
def test_ranges_are_parsed_as_formatted(result: set[int]) -> None:
    assert set(cores.parse_ranges(cores.format_ranges(result))) == result
    assert set(cores.parse_bitmap(hex(sum(1 << number for number in result)))) == result


@pytest.mark.parametrize(
    ("bitmap", "expected"), [("0x0000000FFFFFFFF8", list(range(3, 36))), ("0x78", [3, 4, 5, 6]), ("", [])]
)
def test_slurms_bitmap_counts_from_the_right(bitmap: str, expected: list[int]) -> None:
    assert cores.parse_bitmap(bitmap) == expected


def test_malformed_ranges_are_left_out() -> None:
    assert cores.parse_ranges("0-1,x,3, 5-6,7-") == [0, 1, 3, 5, 6, 7]


@pytest.mark.parametrize("text", ["0-99999999999", "8192", "0-8191,0", "0," + "9" * 5000, "\u00b2-\u00b3", "-1", "x"])
def test_a_text_with_too_many_or_unreadable_numbers_has_none(text: str) -> None:
    assert cores.parse_ranges(text) == []


def test_a_text_has_at_most_as_many_numbers_as_linux_has_cpus() -> None:
    assert len(cores.parse_ranges("0-8191")) == CPU_RANGE_MAX


def test_a_driver_with_unreadable_cpus_offers_no_cores() -> None:
    assert build_inventory([cpu_groups({"numa0": "0-99999999999"}, "0-9>99999999999")], ["dra.cpu"]).cpus is None
