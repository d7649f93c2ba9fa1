# SPDX-License-Identifier: Apache-2.0
"""Two slurmctld on two nodes: the standby takes over from a primary that cannot run, and jobs continue."""

from typing import Any

import pytest
from tests.e2e.operator.site import OperatorSite, cluster
from tests.support.waiting import until

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


def build(site: OperatorSite) -> None:
    volume = f"{site.namespace}-shared"
    owned = ("install", "--directory", f"--owner={SLURM_UID}", f"--group={SLURM_UID}", f"{SHARED}/{volume}")
    site.lab.node_machine("node1").run(owned)
    manifests = cluster(ha={"enabled": True, "backups": 1})
    spec = next(item["spec"] for item in manifests if item["kind"] == "Controller")
    spec["persistence"] = {"existingClaim": "shared"}
    spec["extraConf"] += "SlurmctldTimeout=10\n"
    site.apply(shared_volume(volume), claim("shared", volume), *manifests)
    site.wait_workers(2)
    until(lambda: ready_controllers(site) == [PRIMARY], "a primary that serves and a standby")


def ready_controllers(site: OperatorSite) -> list[str]:
    def is_ready(pod: dict[str, Any]) -> bool:
        conditions = pod["status"].get("conditions", [])
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    return [name for name, pod in site.pods("slurmctld").items() if is_ready(pod)]


def controller_nodes(site: OperatorSite) -> dict[str, str]:
    """The nodes of the controllers; empty until both are scheduled."""
    nodes = {name: pod["spec"].get("nodeName", "") for name, pod in site.pods("slurmctld").items()}
    return nodes if len(nodes) == 2 and all(nodes.values()) else {}


def run_on(site: OperatorSite, pod: str, *argv: str) -> str:
    return site.kubectl("exec", pod, "-c", "slurmctld", "--", *argv, check=False)


def test_a_standby_takes_over_and_the_primary_takes_back(site: OperatorSite) -> None:
    nodes = until(lambda: controller_nodes(site), "a node for both controllers")
    assert set(nodes.values()) == {"node1", "node2"}
    job = site.start_job("g-0")
    # The primary cannot be scheduled again: its node is cordoned, and the other node has the standby.
    site.lab.kubectl("cordon", nodes[PRIMARY])
    try:
        site.kubectl("delete", "pod", PRIMARY, "--wait=false")
        until(lambda: ready_controllers(site) == [STANDBY], "the standby as the endpoint of the Service")
        until(lambda: "RUNNING" in run_on(site, STANDBY, "squeue", "-h", "-j", job, "-o", "%T"), "the job")
    finally:
        site.lab.kubectl("uncordon", nodes[PRIMARY])
    until(lambda: ready_controllers(site) == [PRIMARY], "the primary")
    until(lambda: set(site.host_states()) == {"g-0", "g-1"}, "the hosts")
    assert site.job_state(job) == "RUNNING"
    # The standby saved its state and ended before the primary read it; otherwise the log has "Old state possible".
    assert f"{STANDBY}.slurm-controller-internal" in takeover_line(site)
    previous = ("logs", STANDBY, "-c", "slurmctld", "--previous")
    log = until(lambda: site.kubectl(*previous, check=False), "the restarted standby")
    assert "Saving all slurm state" in log
    assert "Old state possible" not in log + site.kubectl("logs", STANDBY, "-c", "slurmctld")
    site.finish_job(job, "gpu-0")


def test_both_controllers_get_a_changed_configuration(site: OperatorSite) -> None:
    """A StatefulSet alone would wait for ever until the new standby is ready."""
    before = site.uids("slurmctld")
    conf = site.get("controller", "slurm")["spec"]["extraConf"]
    site.patch("controller", "slurm", extraConf=f"{conf}FirstJobId=5000\n")

    def is_replaced() -> bool:
        uids = site.uids("slurmctld")
        return uids.keys() == before.keys() and not set(uids.values()) & set(before.values())

    until(is_replaced, "two new controllers")
    until(lambda: ready_controllers(site) == [PRIMARY], "the primary")
    show = ("sh", "-c", "scontrol show config | grep FirstJobId")
    until(lambda: "5000" in run_on(site, PRIMARY, *show), "the setting")
    until(lambda: set(site.host_states()) == {"g-0", "g-1"}, "the hosts")


def takeover_line(site: OperatorSite) -> str:
    """The line of the primary's log about the controller that served in its place."""
    lines = site.kubectl("logs", PRIMARY, "-c", "slurmctld").splitlines()
    return next(line for line in lines if "takeover: " in line)
