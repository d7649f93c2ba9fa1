# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host with a slurmd jobs can use, and how a difference is described."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import GPU_DRIVER, cpu_singles, gpus

from slinky.bridge.devices import host_gres
from slinky.bridge.devices.allocation import read_grant
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind, build_inventory
from slinky.slurm import Gres, Host, NodeResources

GPU, ANY = GresKind("gpu", GPU_DRIVER), GresKind("gpu")
FOUR = build_inventory([gpus(4)], [GPU_DRIVER])
EIGHT_CPUS = build_inventory([cpu_singles(cores=8)], ["dra.cpu"])


def hybrid(gres: str, used: str = "", cores: int = 0) -> Host:
    return Host("h1", words=("IDLE",), gres=gres, gres_used=used, sockets=1, cores=cores)


@pytest.mark.parametrize(
    ("host", "inventory", "usable", "message"),
    [
        (hybrid(f"gpu:{GPU_DRIVER}:4(S:0)"), FOUR, {}, ""),
        (
            hybrid(f"gpu:{GPU_DRIVER}:8"),
            FOUR,
            {GPU: 4, ANY: 4},
            f"Slurm host h1 has 8 gpu:{GPU_DRIVER}, the drivers of the node offer 4",
        ),
        (
            hybrid(f"gpu:{GPU_DRIVER}:2"),
            FOUR,
            {},
            f"Slurm host h1 has 2 gpu:{GPU_DRIVER}, the drivers of the node offer 4",
        ),
        (
            hybrid(f"gpu:{GPU_DRIVER}:8,gpu:old:2"),
            FOUR,
            {GPU: 4, GresKind("gpu", "old"): 0, ANY: 4},
            f"Slurm host h1 has 8 gpu:{GPU_DRIVER}, the drivers of the node offer 4 "
            "and 2 gpu:old, the drivers of the node offer 0",
        ),
        (
            hybrid("gpu:8"),
            FOUR,
            {ANY: 0},
            "Slurm host h1 has 8 gpu, the drivers of the node offer 0 "
            f"and 0 gpu:{GPU_DRIVER}, the drivers of the node offer 4",
        ),
        (
            hybrid(f"gpu:{GPU_DRIVER}:8", f"gpu:{GPU_DRIVER}:3(IDX:0,2,7)"),
            FOUR,
            {GPU: 2, ANY: 2},
            f"Slurm host h1 has 8 gpu:{GPU_DRIVER}, the drivers of the node offer 4",
        ),
        (
            hybrid(f"gpu:a:2,gpu:{GPU_DRIVER}:8", f"gpu:a:1(IDX:0),gpu:{GPU_DRIVER}:2(IDX:2-3)"),
            FOUR,
            {GresKind("gpu", "a"): 0, GPU: 2, ANY: 2},
            "Slurm host h1 has 2 gpu:a, the drivers of the node offer 0",
        ),
        (hybrid("nic:2", "nic:0"), FOUR, {GresKind("nic"): 0}, f"Slurm host h1 has 0 gpu:{GPU_DRIVER}, "),
        (
            hybrid(f"gpu:{GPU_DRIVER}:4", f"gpu:{GPU_DRIVER}:0"),
            FOUR,
            {GPU: 0, ANY: 0},
            "Slurm host h1 has gpu without indexes",
        ),
        (hybrid(f"gpu:{GPU_DRIVER}:4(S:0)", f"gpu:{GPU_DRIVER}:1(IDX:0,2)"), FOUR, {}, ""),
        (hybrid(f"gpu:{GPU_DRIVER}:4", f"gpu:{GPU_DRIVER}:0(IDX:N/A)"), FOUR, {}, ""),
        (
            hybrid("", cores=16),
            EIGHT_CPUS,
            {CPUS: 0},
            "Slurm host h1 has 16 cores, the CPU driver of the node offers 8",
        ),
        (hybrid("", cores=8), EIGHT_CPUS, {}, ""),
    ],
)
def test_a_job_can_use_what_slurm_and_the_drivers_both_have(
    host: Host, inventory: DeviceInventory, usable: host_gres.UsableCounts, message: str
) -> None:
    assert host_gres.usable_counts(host, inventory) == usable
    assert host_gres.describe_mismatch(host, inventory).startswith(message)
    assert bool(host_gres.describe_mismatch(host, inventory)) == bool(message)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.sets(st.integers(0, 17)))
def test_no_index_stands_for_two_devices(a: int, b: int, offered: int, indexes: set[int]) -> None:
    """Whatever gres.conf lists: an index is a device of its own or none, and the first indexes of a type have one."""
    inventory = build_inventory([gpus(offered)], [GPU_DRIVER]) if offered else DeviceInventory()
    gres = f"gpu:a:{a},gpu:{GPU_DRIVER}:{b}"
    allocated = Gres("gpu", "", len(indexes), ",".join(map(str, sorted(indexes))))
    grant = read_grant(NodeResources("h1", gres=(allocated,) if indexes else ()), inventory, gres)
    devices = [device.device for device in grant.devices_of(ANY)]
    assert devices == [f"gpu-{index - a}" for index in sorted(indexes) if a <= index < a + min(b, offered)]
