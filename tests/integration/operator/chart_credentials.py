# SPDX-License-Identifier: Apache-2.0
"""Credentials with the permissions that the chart gives the operator, and no others."""

import functools
import subprocess
from pathlib import Path

import yaml
from tests.chart.helm import Helm, program

from slinky.lab.kubernetes.bare_plane import BarePlane

SPACE, ACCOUNT = "slinky-rights", "slurm-operator"
RBAC_KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@functools.cache
def token(plane: BarePlane) -> str:
    """A token of the service account of the chart."""
    objects = Helm(program(), plane.folder / "helm").render("slurm-operator", {}, ACCOUNT, SPACE)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    manifests = [namespace, *(item for item in objects if item["kind"] in RBAC_KINDS)]
    _kubectl(plane, "apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(manifests))
    return _kubectl(plane, "create", "token", ACCOUNT, "-n", SPACE, "--duration=24h").strip()


def kubeconfig(plane: BarePlane) -> Path:
    """A kubeconfig file with that token."""
    settings = yaml.safe_load(plane.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": token(plane)}
    path = plane.folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return path


def _kubectl(plane: BarePlane, *words: str, input: str = "") -> str:
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *words]
    return subprocess.run(argv, input=input, text=True, check=True, capture_output=True).stdout
