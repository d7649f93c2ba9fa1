# SPDX-License-Identifier: Apache-2.0
"""Conversion of a slurm.conf and of values of slurm-operator: what is taken, and why the rest is not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from slinky.cli.conversion.chart_values import convert_values
from slinky.cli.conversion.convert import app
from slinky.cli.conversion.slurm_conf import convert_slurm_conf
from slinky.slurm.conf.text import ConfError

SITE = """
ClusterName=alpine
SlurmctldHost=ctl1(10.0.0.1)
AuthType=auth/munge
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=db1
AccountingStoragePass=hunter2
NodeName=DEFAULT State=UNKNOWN
NodeName=cpu[001-004] CPUs=64 RealMemory=256000 Sockets=2 Weight=10
NodeName=gpu[01-02] RealMemory=1000000 Gres=gpu:h100:8 Features=h100,ib
PartitionName=DEFAULT MaxTime=2-00:00:00
PartitionName=all Nodes=ALL Default=YES
PartitionName=gpu Nodes=gpu[01-02] MaxTime=7-00:00:00
PartitionName=debug Nodes=cpu001,gpu01,old1
PartitionName=empty
"""


def untaken(text: str) -> dict[str, str]:
    return dict(convert_slurm_conf(text, {}).untaken)


def test_nodes_of_equal_partitions_become_one_node_set() -> None:
    values = convert_slurm_conf(SITE, {}).values
    assert {name: entry["replicas"] for name, entry in values["nodesets"].items()} == {
        "cpu": 1,
        "cpu-b": 3,
        "gpu": 1,
        "gpu-b": 1,
    }
    assert values["partitions"]["gpu"]["nodesets"] == ["gpu", "gpu-b"]
    assert values["partitions"]["debug"]["nodesets"] == ["cpu", "gpu"]
    assert values["partitions"]["all"] == {
        "enabled": True,
        "nodesets": ["ALL"],
        "configMap": {"MaxTime": "2-00:00:00", "Default": "YES"},
    }
    assert values["nodesets"]["gpu"] == {
        "replicas": 1,
        "slurmd": {
            "resources": {
                "requests": {"memory": "1000000Mi"},
                "limits": {"memory": "1000000Mi", "nvidia.com/gpu": 8},
            }
        },
        "extraConfMap": {"Gres": "gpu:h100:8", "Features": "h100,ib"},
    }


def test_other_settings_are_kept_and_owned_ones_have_a_reason() -> None:
    conversion = convert_slurm_conf(SITE, {"cgroup.conf": "ConstrainCores=yes\n", "gres.conf": "Name=gpu\n"})
    values, reasons = conversion.values, dict(conversion.untaken)
    assert values["clusterName"] == "alpine"
    assert values["controller"] == {"extraConfMap": {"SelectType": "select/cons_tres"}}
    assert values["accounting"]["externalConfig"] == {"host": "db1", "port": 6819}
    assert values["configFiles"] == {"cgroup.conf": "ConstrainCores=yes\n"}
    assert "addresses of slurmctld" in reasons["SlurmctldHost=ctl1(10.0.0.1)"]
    assert "auth/slurm" in reasons["AuthType=auth/munge"]
    assert reasons["PartitionName=debug Nodes=old1"] == "no NodeName line defines them"
    assert "no nodes" in reasons["PartitionName=empty"]
    assert "hosts" in reasons["gres.conf"]
    assert "hunter2" not in repr(conversion)


@pytest.mark.parametrize("text", ["Include /etc/other.conf", "SlurmctldParameters+=idle", "what is this"])
def test_text_that_cannot_be_converted_is_refused(text: str) -> None:
    with pytest.raises(ConfError):
        convert_slurm_conf(text, {})


@given(st.lists(st.sets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=6))
def test_each_partition_has_exactly_its_nodes(partitions: list[set[str]]) -> None:
    lines = [f"NodeName={letter}[1-3] Weight=1" for letter in "abcd"]
    wanted: dict[str, set[str]] = {}
    for index, letters in enumerate(partitions):
        hosts = {f"{letter}{number}" for letter in letters for number in range(1, 2 + index % 3)}
        wanted[f"p{index}"] = hosts
        lines.append(f"PartitionName=p{index}" + (f" Nodes={','.join(sorted(hosts))}" if hosts else ""))
    values = convert_slurm_conf("\n".join(lines), {}).values
    assert sum(entry["replicas"] for entry in values["nodesets"].values()) == 12
    for name, hosts in wanted.items():
        entry = values.get("partitions", {}).get(name, {"nodesets": []})
        assert sum(values["nodesets"][node_set]["replicas"] for node_set in entry["nodesets"]) == len(hosts)


def test_values_of_the_cluster_chart() -> None:
    old: dict[str, Any] = {
        "asciiArt": True,
        "nodeset": {},
        "controller": {"logfile": {"image": "library/alpine:latest"}, "extraConfMap": {"Debug": 0, "MinJobAge": 2}},
        "nodesets": {"gpu": {"image": "x", "logfile": {"image": {"repository": "alpine"}}, "replicas": 2}},
    }
    before = json.dumps(old)
    conversion = convert_values(old, "prod")
    assert json.dumps(old) == before
    assert conversion.chart == "slurm"
    assert conversion.values["slurmKey"] == {
        "create": False,
        "secretRef": {"name": "prod-auth-slurm", "key": "slurm.key"},
    }
    assert conversion.values["controller"] == {"logfile": {}, "extraConfMap": {"MinJobAge": 2}}
    assert conversion.values["nodesets"] == {"gpu": {"logfile": {}, "replicas": 2}}
    reasons = dict(conversion.untaken)
    assert reasons["nodeset"].endswith("did you mean nodesets?")
    assert set(reasons) == {
        "nodeset",
        "asciiArt",
        "controller.logfile.image",
        "nodesets.gpu.logfile.image",
        "nodesets.gpu.image",
        "controller.extraConfMap.Debug",
    }
    assert "kubectl annotate secret prod-auth-slurm prod-auth-jwt" in conversion.notes[0]


def test_values_of_the_operator_chart() -> None:
    old = {"operator": {"image": {"repository": "ghcr.io/slinkyproject/slurm-operator"}, "replicas": 1}}
    conversion = convert_values(old, "slurm-operator")
    assert conversion.chart == "slurm-operator"
    assert conversion.values == {
        "operator": {"replicas": 1},
        "certManager": {"secretName": "slurm-operator-webhook-tls"},
    }
    own = convert_values({"operator": {"image": "registry.example/mine"}}, "x")
    assert own.values["operator"] == {"image": "registry.example/mine"}


def run(*argv: str) -> Result:
    return CliRunner().invoke(app, list(argv))


def test_the_command_prints_values_and_says_what_is_missing(tmp_path: Path) -> None:
    path, target = tmp_path / "slurm.conf", tmp_path / "values.yaml"
    path.write_text(SITE)
    result = run(str(path))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["clusterName"] == "alpine"
    assert "+NodeName=cpu-b-[0-2] Weight=10" in result.stderr
    assert "settings not taken:" in result.stderr
    assert json.loads(run(str(path), "-o", "json").stdout)["chart"] == "slurm"
    assert "AuthType=auth/munge\n" in run(str(path), "-o", "name").stdout
    assert run(str(path), "--write", str(target)).stdout == ""
    assert yaml.safe_load(target.read_text())["clusterName"] == "alpine"
    again = run(str(path), "--write", str(target))
    assert (again.exit_code, "exists" in again.stderr) == (2, True)
    target.write_text("clusterName: alpine\n")
    assert "+slurmKey:" in run(str(target)).stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("values.yaml", "a: [", "is not YAML"),
        ("values.yaml", "[]", "has no values"),
        ("slurm.conf", "", "is it a slurm.conf?"),
        ("slurm.conf", "Include x\x1b", "cannot be read as slurm.conf"),
    ],
)
def test_a_file_that_is_neither_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    result = run(str(tmp_path / name))
    assert (result.exit_code, words in result.stderr, "\x1b" in result.stderr) == (1, True, False), result.stderr
    assert run(str(tmp_path / "missing")).exit_code == 3
