# SPDX-License-Identifier: Apache-2.0
"""Pods that do not run, for every cause, on real kubelets: each kind reports it in Degraded until it is over."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.operator.site import OperatorSite, cluster, manifest, secret
from tests.support.oci_archive import ARM64_PROGRAM, write_archive
from tests.support.waiting import until

from slinky.lab.prepare.emulation import native

pytestmark = pytest.mark.lab

REF = {"name": "slurm"}
NO_IMAGE = "localhost/slinky/nosuch:lab"
SECRET_VOLUME = {"spec": {"volumes": [{"name": "certs", "secret": {"secretName": "certs"}}]}}
SECRET_MOUNT = {"name": "certs", "mountPath": "/certs"}
NO_NODE = {"spec": {"hostname": "far-", "nodeSelector": {"example.com/nosuch": "true"}}}
#: An image that says that it is for this machine, with a program that is not.
FOREIGN_IMAGE = "localhost/slinky/foreign:lab"
FOREIGN = {"spec": {"terminationGracePeriodSeconds": 1, "hostname": "foreign-"}}
NEAR = {"spec": {"terminationGracePeriodSeconds": 1, "hostname": "crash-"}}
CRASH = ["/bin/sh", "-c", "echo 'slurmd: error: first'; echo 'slurmd: fatal: no plugin for this machine'; exit 1"]
DATABASE = {"host": "nosuch", "passwordKeyRef": {"name": "db", "key": "password"}}
#: kind, name, reason of Degraded, words of its message
EXPECTED = (
    ("controller", "slurm", "ImageNotPulled", f"cannot be pulled: .*{NO_IMAGE}"),
    ("restapi", "slurm", "VolumeNotMounted", 'secret "certs" not found'),
    ("loginset", "login", "ContainerNotCreated", 'secret "environment" not found'),
    ("nodeset", "far", "Unschedulable", "0/"),
    (
        "nodeset",
        "foreign",
        "WrongArchitecture",
        "container slurmd is for another architecture than node .*exec format error",
    ),
    ("nodeset", "crash", "CrashLoop", "container slurmd exits: first; no plugin for this machine; more is in its log"),
)


def build(site: OperatorSite) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "image.tar")
        write_archive(archive, FOREIGN_IMAGE, {"bin/sh": ARM64_PROGRAM}, native().name)
        site.lab.load_image(archive)
    *objects, rest_api, _ = cluster(slurmctld={"image": NO_IMAGE})
    rest_api["spec"] |= {"template": SECRET_VOLUME, "slurmrestd": {"volumeMounts": [SECRET_MOUNT]}}
    environment = [{"secretRef": {"name": "environment"}}]
    sssd = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    site.apply(
        *objects,
        rest_api,
        secret("sssd", **{"sssd.conf": "[sssd]\ndomains = none\n"}),
        manifest("LoginSet", "login", controllerRef=REF, login={"envFrom": environment}, **sssd),
        manifest("NodeSet", "far", controllerRef=REF, replicas=1, template=NO_NODE),
        manifest(
            "NodeSet", "foreign", controllerRef=REF, replicas=1, template=FOREIGN, slurmd={"image": FOREIGN_IMAGE}
        ),
        manifest("NodeSet", "crash", controllerRef=REF, replicas=1, template=NEAR, slurmd={"command": CRASH}),
    )


def degraded(site: OperatorSite, kind: str, name: str) -> dict[str, Any]:
    return site.condition(kind, name, "Degraded")


def wait_cause(site: OperatorSite, kind: str, name: str, reason: str, words: str) -> None:
    """Wait until Degraded has this reason; Ready has it too, and Progressing names a pod unless none exists."""
    until(lambda: degraded(site, kind, name).get("reason") == reason, f"{reason} on {kind} {name}")
    found = degraded(site, kind, name)
    assert found["status"] == "True"
    for part in words.split(".*"):
        assert part in found["message"], found
    ready, progressing = (site.condition(kind, name, condition) for condition in ("Ready", "Progressing"))
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert progressing["status"] == "True"
    assert reason == "PodNotCreated" or "pod " in progressing["message"], progressing


def wait_recovery(site: OperatorSite, kind: str, name: str) -> None:
    until(lambda: degraded(site, kind, name).get("status") == "False", f"the end of the failure of {kind} {name}")


@pytest.mark.parametrize(("kind", "name", "reason", "words"), EXPECTED, ids=[case[2] for case in EXPECTED])
def test_the_cause_is_reported_on_the_object(site: OperatorSite, kind: str, name: str, reason: str, words: str) -> None:
    wait_cause(site, kind, name, reason, words)
    events = ("get", "events", "--field-selector", f"reason={reason}", "-o", "name")
    until(lambda: site.kubectl(*events).split(), f"an event {reason}")


def test_a_failure_that_is_over_is_no_longer_reported(site: OperatorSite) -> None:
    """A corrected image replaces the pod that cannot pull it; the others start when their Secrets exist."""
    site.apply(secret("certs", key="x"), secret("environment", KEY="x"))
    site.patch("controller", "slurm", slurmctld={"image": None})
    site.patch("nodeset", "far", template={"spec": {"nodeSelector": None}}, replicas=0)
    site.patch("nodeset", "foreign", slurmd={"image": None}, replicas=0)
    site.patch("nodeset", "crash", slurmd={"command": None})
    for kind, name, _, _ in EXPECTED:
        wait_recovery(site, kind, name)
    until(lambda: site.condition("controller", "slurm", "Ready").get("status") == "True", "a ready slurmctld")
    until(lambda: site.has_workers(1, "crash"), "the worker that crashed")


def test_pods_that_a_quota_refuses_are_reported_by_each_kind_of_workload(site: OperatorSite) -> None:
    """A StatefulSet, a Deployment and the operator itself create the pods."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    site.apply(quota)
    until(lambda: "pods" in (site.get("resourcequota", "none").get("status") or {}).get("hard", {}), "the quota")
    keys = {
        "slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"},
        "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"},
    }
    site.apply(secret("db", password="x"), manifest("Accounting", "slurm", storageConfig=DATABASE, **keys))
    site.patch("nodeset", "crash", replicas=2)
    site.patch("loginset", "login", replicas=2)
    for kind, name in (("accounting", "slurm"), ("nodeset", "crash"), ("loginset", "login")):
        wait_cause(site, kind, name, "PodNotCreated", "exceeded quota: none")
    site.kubectl("delete", "resourcequota", "none")
    wait_recovery(site, "nodeset", "crash")
    wait_recovery(site, "loginset", "login")
    # The database does not exist, which slurmdbd reports as soon as its pod exists.
    until(lambda: degraded(site, "accounting", "slurm").get("reason") == "DatabaseUnreachable", "slurmdbd's own error")
