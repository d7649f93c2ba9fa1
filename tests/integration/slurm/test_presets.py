# SPDX-License-Identifier: Apache-2.0
"""The real Slurm knows every parameter of the presets, and runs a job with them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.slurm_settings import slurm_settings

from slinky.lab.slurm.cluster import LabSlurm

PRESETS = sorted((Path(__file__).parents[3] / "examples/operator/presets").glob("*.yaml"))

PROGRAMS = "/usr/sbin/slurmctld /usr/bin/salloc $(find /usr/lib -name 'sched_backfill.so' -o -name 'libslurm*.so*')"


def settings(values: dict[str, Any]) -> dict[str, str]:
    """The settings of slurm.conf."""
    return {name: str(value) for name, value in values["controller"]["extraConfMap"].items()}


def partition_lines(values: dict[str, Any]) -> str:
    """The partitions, with every host of the lab."""
    # The default partition of the lab stays the default for the other tests of the process.
    texts = {
        name: " ".join(f"{key}={value}" for key, value in partition["configMap"].items() if key != "Default")
        for name, partition in values["partitions"].items()
    }
    return "\n".join(f"PartitionName={name} Nodes=ALL {text}" for name, text in texts.items())


def shown(text: str) -> dict[str, str]:
    """The first word of each setting that `scontrol show config` prints, in lower case."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {name.strip(): value.strip().lower().partition(" ")[0] for name, _, value in pairs}


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_slurmctld_runs_a_job_with_a_preset(slurm: LabSlurm, path: Path) -> None:
    values = yaml.safe_load(path.read_text())
    wanted = settings(values)
    with slurm_settings(slurm, wanted, lines=partition_lines(values)):
        loaded = shown(slurm.exec("scontrol", "show", "config"))
        assert {name: loaded[name] for name in wanted} == {name: value.lower() for name, value in wanted.items()}
        listed = slurm.exec("scontrol", "show", "partition", "--oneliner")
        for name, partition in values["partitions"].items():
            line = next(line for line in listed.splitlines() if f"PartitionName={name} " in line)
            assert f"MaxTime={partition['configMap']['MaxTime']} " in line
        assert slurm.sbatch("echo hello", "--partition=work", "--mem=50") == "hello\n"


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_slurm_knows_every_scheduler_parameter(slurm: LabSlurm, path: Path) -> None:
    options = settings(yaml.safe_load(path.read_text()))["SchedulerParameters"].split(",")
    for option in options:
        # Slurm ignores names that it does not know, so look for them in its programs.
        name = option.partition("=")[0]
        assert slurm.exec("sh", "-c", f"grep -lae '{name}' {PROGRAMS}").strip(), name
