# SPDX-License-Identifier: Apache-2.0
"""The operator of these tests has the rights that its chart gives it, and no others."""

import functools
import subprocess
from pathlib import Path

import yaml
from tests.chart.helm import Helm, program

from slinky.lab.kubernetes.bare_plane import PlainPlane

SPACE, ACCOUNT = "slinky-rights", "slurm-operator"
GIVEN = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@functools.cache
def token(plane: PlainPlane) -> str:
    """What proves that it is the chart's account."""
    objects = Helm(program(), plane.folder / "helm").render("slurm-operator", {}, ACCOUNT, SPACE)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    given = [home, *(item for item in objects if item["kind"] in GIVEN)]
    _kubectl(plane, "apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(given))
    return _kubectl(plane, "create", "token", ACCOUNT, "-n", SPACE, "--duration=24h").strip()


def kubeconfig(plane: PlainPlane) -> Path:
    """The same as a file."""
    settings = yaml.safe_load(plane.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": token(plane)}
    path = plane.folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return path


def _kubectl(plane: PlainPlane, *words: str, given: str = "") -> str:
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *words]
    return subprocess.run(argv, input=given, text=True, check=True, capture_output=True).stdout
