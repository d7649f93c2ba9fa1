# SPDX-License-Identifier: Apache-2.0
"""Jobs are confined by default, a site's own settings are kept, and no rendering contradicts itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.samples import node_set

from slinky.operator.build.config_files import Files
from slinky.operator.controller.confinement import cgroup_conf, confinement_settings
from slinky.slurm import conf

ALL = {
    "ProctrackType": "proctrack/cgroup",
    "TaskPlugin": "task/cgroup,task/affinity",
    "PrologFlags": "Contain",
    "JobAcctGatherType": "jobacct_gather/cgroup",
}
WITHOUT = {"ProctrackType": "proctrack/linuxproc", "JobAcctGatherType": "jobacct_gather/linux"}


def site_file(text: str) -> Files:
    return Files(config=("cgroup.conf",), contents={"site/cgroup.conf": text}, copied={"cgroup.conf": text})


CASES: list[tuple[str, str, Files, dict[str, Any], dict[str, str]]] = [
    ("jobs are confined by default", "", Files(), {}, ALL),
    ("a key of the site is kept", "prologflags=X11", Files(), {}, {k: v for k, v in ALL.items() if k != "PrologFlags"}),
    ("a site without cgroups gets nothing that needs them", "", site_file("CgroupPlugin=disabled"), {}, WITHOUT),
    ("in any spelling", "", site_file("# none here\ncgroupplugin = Disabled\n"), {}, WITHOUT),
    ("its own keys are kept too", "ProctrackType=proctrack/pgid", site_file("CgroupPlugin=disabled"), {},
     {"JobAcctGatherType": "jobacct_gather/linux"}),
    ("other process tracking stands alone", "ProctrackType=proctrack/linuxproc", Files(), {}, {}),
    ("a site's own cgroup.conf that uses cgroups", "", site_file("CgroupPlugin=cgroup/v1"), {}, ALL),
    ("no cores for workers that share a node", "", Files(), {"oversubscribeNode": True},
     {**ALL, "TaskPlugin": "task/cgroup"}),
]  # fmt: skip


@pytest.mark.parametrize(("law", "extra", "files", "spec", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_settings_of_slurm_conf(
    law: str, extra: str, files: Files, spec: dict[str, Any], expected: dict[str, str]
) -> None:
    assert dict(confinement_settings(extra, files, [node_set(**spec)])) == expected


@pytest.mark.parametrize(("shares", "cores"), [(False, "yes"), (True, "no")])
def test_everything_is_constrained_but_cores_of_shared_nodes(shares: bool, cores: str) -> None:
    lines = conf.parse(cgroup_conf([node_set(), node_set(oversubscribeNode=shares)]))
    assert {setting.key: setting.value for line in lines for setting in line} == {
        "CgroupPlugin": "cgroup/v2",
        "IgnoreSystemd": "yes",
        "ConstrainCores": cores,
        "ConstrainDevices": "yes",
        "ConstrainRAMSpace": "yes",
        "ConstrainSwapSpace": "yes",
    }


@given(st.sampled_from(["", "CgroupPlugin=disabled", "CgroupPlugin=cgroup/v2", "not a file"]), st.text(max_size=40))
def test_plugins_of_cgroups_never_meet_disabled_cgroups(site: str, extra: str) -> None:
    files = site_file(site) if site else Files()
    settings = dict(confinement_settings(extra, files, ()))
    if site == "CgroupPlugin=disabled":
        assert "cgroup" not in "".join(settings.values())
        assert "PrologFlags" not in settings
