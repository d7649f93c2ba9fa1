# SPDX-License-Identifier: Apache-2.0
"""Which changes of slurm.conf need a restart of slurmctld."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.conf import RESTART_KEYS, changed_restart_keys

PAGE = Path(__file__).parents[3] / "docs/operator/configuration.md"
BASE = """ClusterName=c
SlurmctldHost=a
SlurmctldHost=b
SlurmctldPort=6817
SchedulerParameters=x
PartitionName=p Nodes=ALL
"""
NAMES = [key.name for key in RESTART_KEYS]
LINES = st.lists(st.tuples(st.sampled_from([*NAMES, "FirstJobId", "Prolog"]), st.sampled_from("abc")), max_size=8)


def text(lines: list[tuple[str, str]]) -> str:
    return "".join(f"{name}={value}\n" for name, value in lines)


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        (("SchedulerParameters=x", "SchedulerParameters=y"), ()),
        (("PartitionName=p Nodes=ALL", "PartitionName=p Nodes=ALL MaxTime=5"), ()),
        (("SlurmctldPort=6817", "slurmctldport=6817"), ()),
        (("SlurmctldPort=6817", "SlurmctldPort=6818"), ("SlurmctldPort",)),
        (("SlurmctldHost=b\n", ""), ("SlurmctldHost",)),
        (("SlurmctldHost=a\nSlurmctldHost=b", "SlurmctldHost=b\nSlurmctldHost=a"), ("SlurmctldHost",)),
        (("ClusterName=c\n", "ClusterName=c\nAuthType=auth/munge\n"), ("AuthType",)),
        (("ClusterName=c", "Include x"), ("slurm.conf",)),
    ],
)
def test_only_settings_of_the_table_need_a_restart(change: tuple[str, str], keys: tuple[str, ...]) -> None:
    assert changed_restart_keys(BASE, BASE.replace(*change)) == keys


@given(LINES, LINES)
def test_the_result_names_exactly_the_settings_of_the_table_that_differ(
    old: list[tuple[str, str]], new: list[tuple[str, str]]
) -> None:
    def values(lines: list[tuple[str, str]], name: str) -> list[str]:
        return [value for key, value in lines if key == name]

    expected = tuple(name for name in NAMES if values(old, name) != values(new, name))
    assert changed_restart_keys(text(old), text(new)) == expected
    assert changed_restart_keys(text(new), text(old)) == expected
    assert changed_restart_keys(text(old), text(old)) == ()


def test_the_page_lists_each_setting_with_its_reason() -> None:
    lines = PAGE.read_text().splitlines()
    for key in RESTART_KEYS:
        assert any(f"`{key.name}`" in line and key.reason in line for line in lines), key.name
