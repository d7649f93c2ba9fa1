# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is named with a next step, everything at once, before long work begins."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from slinky.lab import preflight
from slinky.lab.errors import LabError
from slinky.lab.machine import cgroups
from slinky.lab.preflight import GIGABYTE, HostFacts, Verdict

GOOD = HostFacts(
    uid=0,
    system="Linux",
    kernel=(6, 1),
    python=(3, 11),
    cpus=2,
    memory=24 * GIGABYTE,
    cache_free=50 * GIGABYTE,
    labs_free=50 * GIGABYTE,
    namespaces=frozenset(preflight.NAMESPACES),
    has_overlay=True,
    cgroup_problem="",
    missing_packages=(),
    has_apt=False,
    gigabytes_to_prepare=22,
)


def test_a_machine_with_everything_is_accepted() -> None:
    items = preflight.judge(GOOD)
    assert {item.verdict for item in items} == {Verdict.OK}
    assert not any(item.next_step for item in items)
    preflight.refuse(items)


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "text"),
    [
        ("user", {"uid": 1000}, Verdict.MISSING, "sudo"),
        ("kernel", {"system": "Darwin"}, Verdict.MISSING, "Linux"),
        ("kernel", {"kernel": (4, 18)}, Verdict.MISSING, "5.10"),
        ("kernel", {"kernel": ()}, Verdict.MISSING, "5.10"),
        ("Python", {"python": (3, 9)}, Verdict.MISSING, "PYTHON="),
        ("namespaces", {"namespaces": frozenset({"mnt"})}, Verdict.MISSING, "kernel"),
        ("overlay file system", {"has_overlay": False}, Verdict.MISSING, "modprobe overlay"),
        ("cgroups", {"cgroup_problem": "x is not writable"}, Verdict.MISSING, "cgroup namespace"),
        ("CPUs", {"cpus": 1}, Verdict.SLOW, "2 or more"),
        ("memory", {"memory": 3 * GIGABYTE}, Verdict.MISSING, "8 GB"),
        ("memory", {"memory": 6 * GIGABYTE}, Verdict.SLOW, "8 GB"),
        ("disk of the cache", {"cache_free": 21 * GIGABYTE}, Verdict.MISSING, "SLINKY_CACHE"),
        ("disk of running labs", {"labs_free": GIGABYTE}, Verdict.MISSING, "SLINKY_STATE"),
        ("programs", {"missing_packages": ("debootstrap",)}, Verdict.MISSING, "install debootstrap"),
        ("programs", {"missing_packages": ("debootstrap",), "has_apt": True}, Verdict.OK, ""),
        ("virtual machines", {"has_tun": False, "architecture": "aarch64"}, Verdict.OK, ""),
        ("virtual machines", {"vms": 1, "memory_available": 4 * GIGABYTE}, Verdict.OK, ""),
        ("virtual machines", {"vms": 2, "memory_available": 4 * GIGABYTE}, Verdict.MISSING, "fewer --vms"),
        ("virtual machines", {"vms": 1, "has_tun": False}, Verdict.MISSING, "modprobe tun"),
        ("virtual machines", {"vms": 1, "architecture": "aarch64"}, Verdict.MISSING, "--nodes"),
    ],
)
def test_each_lack_has_its_verdict_and_next_step(
    name: str, changes: dict[str, Any], verdict: Verdict, text: str
) -> None:
    items = preflight.judge(dataclasses.replace(GOOD, **changes))
    assert [item.name for item in items if item.verdict is not Verdict.OK] == [name] * (verdict is not Verdict.OK)
    item = next(item for item in items if item.name == name)
    assert item.verdict is verdict
    assert text in item.next_step


def test_one_error_names_everything_that_is_missing() -> None:
    poor = dataclasses.replace(GOOD, uid=1000, labs_free=0, cpus=1)
    with pytest.raises(LabError) as caught:
        preflight.refuse(preflight.judge(poor))
    assert "user: uid 1000" in caught.value.what
    assert "disk of running labs: 0.0 GB free" in caught.value.what
    assert "CPUs" not in caught.value.what
    assert "sudo" in caught.value.hint
    assert "SLINKY_STATE" in caught.value.hint


def test_facts_of_this_machine_can_be_read() -> None:
    facts = preflight.gather()
    assert facts.system == "Linux"
    assert facts.cpus
    assert facts.memory > GIGABYTE / 10
    assert facts.kernel > (3, 0)


def make_version_2(folder: Path, controllers: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.controllers").write_text(controllers)
    for name in ("cgroup.subtree_control", "cgroup.procs"):
        (folder / name).touch()
    return folder


def test_controllers_count_wherever_they_are(tmp_path: Path) -> None:
    unified = make_version_2(tmp_path / "unified", "cpuset cpu io memory pids\n")
    assert cgroups.problem([unified]) == ""
    hybrid = [make_version_2(tmp_path / "empty", "")]
    for name in ("cpu,cpuacct", "cpuset", "memory", "pids"):
        (tmp_path / name).mkdir()
        hybrid.append(tmp_path / name)
    assert cgroups.problem(hybrid) == ""
    assert cgroups.problem(hybrid[:-1]) == "the controllers pids are missing"
    assert cgroups.problem([]) == "no cgroup hierarchy is mounted"
    assert cgroups.problem([tmp_path / "absent"]) == f"{tmp_path / 'absent'} is not writable"


def test_a_container_whose_processes_are_in_the_root_of_its_cgroups_is_told(tmp_path: Path) -> None:
    top = make_version_2(tmp_path, "cpuset cpu io memory pids\n")
    (top / "cgroup.procs").write_text("1\n")
    assert cgroups.problem([top]) == "", "the root of a machine may have processes"
    (top / "cgroup.type").write_text("domain\n")
    assert cgroups.problem([top]) == f"{top} contains processes, so it cannot delegate its controllers"
    (top / "cgroup.subtree_control").write_text("cpuset cpu memory pids\n")
    assert cgroups.problem([top]) == "", "it has delegated them already"
    (top / "cgroup.subtree_control").write_text("")
    (top / "cgroup.procs").write_text("")
    assert cgroups.problem([top]) == ""
