# SPDX-License-Identifier: Apache-2.0
"""Pods carry exactly the arguments and environment that the published images were made for."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.samples import accounting, controller, node_set

from slinky.api.loginset import LoginSet
from slinky.api.names import metadata
from slinky.api.restapi import RestApi
from slinky.operator.accounting.plan import AccountingInputs
from slinky.operator.accounting.plan import plan as accounting_plan
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import DaemonHashes, Images
from slinky.operator.controller import objects as ctld
from slinky.operator.loginset import objects as login
from slinky.operator.nodeset import objects as workers
from slinky.operator.restapi import objects as rest
from slinky.operator.settings import OperatorSettings

IMAGES = Images(OperatorSettings().image)
REF = {"controllerRef": {"name": "slurm"}}


def kind(view: type[Any], **spec: Any) -> Any:
    return msgspec.convert({"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": {**REF, **spec}}, view)


def slurmd(**spec: Any) -> dict[str, Any]:
    setting = workers.WorkerContext(controller(), workers.WorkerHashes(), IMAGES)
    return dict(workers.pod(node_set(**spec), workers.Slot(0), setting)["spec"])


def slurmctld() -> dict[str, Any]:
    return dict(ctld.stateful_set(controller(), None, DaemonHashes(), Files(), IMAGES)["spec"]["template"]["spec"])


def slurmdbd() -> dict[str, Any]:
    return dict(
        accounting_plan(accounting(), AccountingInputs(password="p"), IMAGES).apply[-1][1]["spec"]["template"]["spec"]
    )


def slurmrestd() -> dict[str, Any]:
    made = rest.deployment(kind(RestApi), controller(), DaemonHashes(), IMAGES)
    return dict(made["spec"]["template"]["spec"])


def sackd() -> dict[str, Any]:
    parent = kind(LoginSet, sssdConfRef={"name": "sssd", "key": "sssd.conf"})
    made = login.deployment(parent, controller(), login.LoginSetHashes(), IMAGES, "cluster.local")
    return dict(made["spec"]["template"]["spec"])


def main(pod: dict[str, Any]) -> dict[str, Any]:
    """The daemon's container, whose entrypoint is the image's own."""
    (result,) = pod["containers"]
    assert "command" not in result
    return dict(result)


PODS = {
    "slurmctld": (slurmctld(), []),
    "slurmdbd": (slurmdbd(), []),
    "slurmrestd": (slurmrestd(), ["-s", "openapi/slurmctld", "0.0.0.0:6820"]),
    "login": (sackd(), []),
    "slurmd": (slurmd(), ["-Z", "--conf-server", "slurm-controller.ns:6817", "--conf", "'Features=gpu'"]),
}


@pytest.mark.parametrize("daemon", PODS)
def test_arguments(daemon: str) -> None:
    pod, args = PODS[daemon]
    assert main(pod).get("args", []) == args
    assert main(pod)["image"] == f"ghcr.io/slinkyproject/{daemon}:26.05-ubuntu26.04"


ENVIRONMENT: dict[str, dict[str, Any]] = {
    "slurmctld": {"SLINKY_CLUSTER": "ns_slurm"},
    "slurmdbd": {},
    "slurmrestd": {
        "SLINKY_CLUSTER": "ns_slurm",
        "SLURM_JWT": "daemon",
        "SLURMRESTD_SECURITY": "disable_unshare_files,disable_unshare_sysv",
    },
    "login": {"SACKD_OPTIONS": "--conf-server slurm-controller.ns:6817"},
    "slurmd": {
        "SLINKY_TOPOLOGY": {"fieldRef": {"fieldPath": f"metadata.annotations['{metadata.TOPOLOGY}']"}},
        "POD_CPUS": "0",
        "POD_MEMORY": "0",
        "SLINKY_CLUSTER": "ns_slurm",
    },
}


@pytest.mark.parametrize("daemon", ENVIRONMENT)
def test_environment(daemon: str) -> None:
    result = main(PODS[daemon][0]).get("env", [])
    assert {one["name"]: one.get("value", one.get("valueFrom")) for one in result} == ENVIRONMENT[daemon]


def test_resource_limits_are_passed_to_the_entrypoint() -> None:
    pod = slurmd(slurmd={"resources": {"limits": {"cpu": "3500m", "memory": "4Gi"}}})
    result = {one["name"]: one.get("value") for one in main(pod)["env"]}
    assert (result["POD_CPUS"], result["POD_MEMORY"]) == ("4", "4096")


PORTS = {"slurmctld": 6817, "slurmdbd": 6819, "slurmrestd": 6820, "login": 22, "slurmd": 6818}
USERS = {"slurmctld": 401, "slurmdbd": 401, "slurmrestd": 65534, "login": None, "slurmd": None}


@pytest.mark.parametrize("daemon", PORTS)
def test_ports_users_and_paths_of_files(daemon: str) -> None:
    pod = PODS[daemon][0]
    container = main(pod)
    assert [(one["name"], one["containerPort"]) for one in container["ports"]] == [(daemon, PORTS[daemon])]
    assert {**pod, **container}.get("securityContext", {}).get("runAsUser") == USERS[daemon]
    assert "/etc/slurm" in {one["mountPath"] for one in container["volumeMounts"]}
