# SPDX-License-Identifier: Apache-2.0
"""A lab in which the commands of the pages run as they are written.

Three things differ from a site of a reader. `build/images.yaml` names the images that every node of the lab has. `helm
install` adds one file of values for each chart: one replica, and what nodes without cgroup version 2 need. Commands of
Slurm run in the pod of slurmctld, as on a login host.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.support.doc_blocks import ROOT

from slinky.lab.demo.charts import IMAGES, LabCharts, operator_values
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress

SLURM_COMMANDS = ("scontrol", "sinfo", "squeue", "sbatch", "scancel")
_SLURM = '#!/bin/sh\nexec kubectl exec -n slurm slurm-controller-0 -c slurmctld -- {name} "$@"\n'
_HELM = """#!/bin/sh
for word; do case $word in charts/*) chart=${{word#charts/}};; esac; done
case $1 in install) set -- "$@" --values "{folder}/$chart.yaml";; esac
exec "{helm}" "$@"
"""


def cluster_values() -> dict[str, Any]:
    """What the lab adds to the values of the chart slurm, for every cluster that the pages install."""
    return {
        "configFiles": {"cgroup.conf": "CgroupPlugin=disabled"},
        "controller": {
            "extraConfMap": {"ProctrackType": "proctrack/linuxproc", "DefMemPerCPU": 64},
            "persistence": {"resources": {"requests": {"storage": "1Gi"}}},
        },
    }


class PageStage:
    """Runs blocks in a folder that looks like a checkout, with the lab's kubectl, helm and kubeconfig."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        LabCharts(lab).load_slinky(Progress(quiet=True))
        for name in ("charts", "examples"):
            (folder / name).symlink_to(ROOT / name)
        tools = folder / "tools"
        tools.mkdir()
        self._script("helm", _HELM.format(folder=folder, helm=lab.artifact("helm") / "helm"))
        for name in SLURM_COMMANDS:
            self._script(name, _SLURM.format(name=name))
        self.write_values("slurm-operator-crds", {})
        self.write_values("slurm-operator", operator_values())
        self.write_values("slurm-bridge", {"admission": {"replicas": 1}, "extraConfig": {"taint": "None"}})
        (folder / "build").mkdir()
        (folder / "build" / "images.yaml").write_text(yaml.safe_dump(IMAGES))

    def write_values(self, chart: str, values: dict[str, Any]) -> None:
        """Set what `helm` adds to the values of a chart."""
        (self.folder / f"{chart}.yaml").write_text(yaml.safe_dump(values))

    def _script(self, name: str, text: str) -> None:
        path = self.folder / "tools" / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, commands: str) -> str:
        """Run commands as a reader pastes them; the first that fails ends the block."""
        own = Path(sys.executable).parent
        home = self.folder / "home"
        environment = {
            "PATH": f"{self.folder}/tools:{self.lab.plane.binaries}:{own}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.lab.kubeconfig),
            "HOME": str(home),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode} of\n{commands}\n{done.stdout}"
        return done.stdout
