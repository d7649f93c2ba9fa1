# SPDX-License-Identifier: Apache-2.0
"""Two slurmctld on two nodes: when the primary's node is out of use the standby takes over, and jobs live on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.operator.site import Operator, Site, cluster, until

from slinky.lab.kubernetes.node import SHARED

pytestmark = pytest.mark.lab

PRIMARY, STANDBY = "slurm-controller-0", "slurm-controller-1"
SLURM_UID = "401"


def shared_volume(name: str) -> dict[str, Any]:
    """A folder that all nodes see."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": f"{SHARED}/{name}", "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        },
    }


def claim(name: str, volume: str) -> dict[str, Any]:
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "resources": size, "storageClassName": "", "volumeName": volume}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def shared(site: Site) -> Iterator[str]:
    """A claim that pods on any node may mount at once."""
    volume = f"{site.namespace}-shared"
    owned = ("install", "--directory", f"--owner={SLURM_UID}", f"--group={SLURM_UID}", f"{SHARED}/{volume}")
    site.lab.node_machine("node1").run(owned)
    site.apply(shared_volume(volume), claim("shared", volume))
    yield "shared"
    site.lab.kubectl("delete", "persistentvolume", volume, "--wait=false")


@pytest.fixture(scope="module")
def pair(site: Site, shared: str, operator: Operator) -> Site:
    manifests = cluster(ha={"enabled": True, "backups": 1})
    spec = next(found["spec"] for found in manifests if found["kind"] == "Controller")
    spec["persistence"] = {"existingClaim": shared}
    spec["extraConf"] += "SlurmctldTimeout=10\n"
    site.apply(*manifests)
    until(lambda: site.settled(2), "two workers", 180)
    return site


def ready(site: Site) -> list[str]:
    def is_ready(pod: dict[str, Any]) -> bool:
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))

    return [name for name, pod in site.pods("slurmctld").items() if is_ready(pod)]


def placed(site: Site) -> dict[str, str]:
    """Where the controllers run; nothing until both do."""
    found = {name: pod["spec"].get("nodeName", "") for name, pod in site.pods("slurmctld").items()}
    return found if len(found) == 2 and all(found.values()) else {}


def asked(site: Site, pod: str, *argv: str) -> str:
    return site.kubectl("exec", pod, "-c", "slurmctld", "--", *argv, check=False)


def test_a_standby_takes_over_and_gives_back(pair: Site) -> None:
    until(lambda: ready(pair) == [PRIMARY], "a primary in charge and a standby", 60)
    nodes = until(lambda: placed(pair), "both placed", 60)
    assert set(nodes.values()) == {"node1", "node2"}
    node = nodes[PRIMARY]
    job = pair.job("g-0")
    # The primary goes and finds no place to come back to: the other node has its standby.
    pair.lab.kubectl("cordon", node)
    try:
        pair.kubectl("delete", "pod", PRIMARY, "--wait=false")
        until(lambda: ready(pair) == [STANDBY], "the standby in charge, and the Service leading to it", 120)
        until(lambda: "RUNNING" in asked(pair, STANDBY, "squeue", "-h", "-j", job, "-o", "%T"), "the job there", 90)
    finally:
        pair.lab.kubectl("uncordon", node)
    until(lambda: ready(pair) == [PRIMARY], "the primary again", 180)
    assert set(pair.states()) == {"g-0", "g-1"}
    assert pair.job_state(job) == "RUNNING"
    # The standby had saved and ended before the primary read; "Old state possible" is what it says otherwise.
    assert f"{STANDBY}.slurm-controller-internal" in told_to_end(pair)
    words = ("logs", STANDBY, "-c", "slurmctld", "--previous")
    gone = until(lambda: pair.kubectl(*words, check=False), "the standby back in its place")
    assert "Saving all slurm state" in gone
    assert "Old state possible" not in gone + pair.kubectl("logs", STANDBY, "-c", "slurmctld")
    pair.release(job, "gpu-0")
    pair.completed(job)


def test_both_get_a_changed_configuration(pair: Site) -> None:
    """A StatefulSet alone would wait for ever for the new standby to be ready."""
    until(lambda: ready(pair) == [PRIMARY], "a primary in charge and a standby", 60)
    before = {name: pod["metadata"]["uid"] for name, pod in pair.pods("slurmctld").items()}
    conf = pair.get("controller", "slurm")["spec"]["extraConf"]
    spec = {"spec": {"extraConf": f"{conf}FirstJobId=5000\n"}}
    pair.kubectl("patch", "controller", "slurm", "--type=merge", "-p", json.dumps(spec))

    def replaced() -> bool:
        now = {name: pod["metadata"]["uid"] for name, pod in pair.pods("slurmctld").items()}
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    until(replaced, "two new controllers", 240)
    until(lambda: ready(pair) == [PRIMARY], "the primary in charge again", 180)
    until(lambda: "5000" in asked(pair, PRIMARY, "sh", "-c", "scontrol show config | grep FirstJobId"), "the setting")
    until(lambda: set(pair.states()) == {"g-0", "g-1"}, "the workers", 60)


def told_to_end(site: Site) -> str:
    """What the primary said about the controller that served in its place."""
    lines = site.kubectl("logs", PRIMARY, "-c", "slurmctld").splitlines()
    return next(line for line in lines if line.startswith("takeover: "))
