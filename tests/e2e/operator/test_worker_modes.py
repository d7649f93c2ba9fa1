# SPDX-License-Identifier: Apache-2.0
"""Every way in which workers change, on real kubelets with a real Slurm, while jobs run.

The tests share one cluster, in order. Its workers are unprivileged and have a volume each; the last test removes it.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.operator.site import Operator, Site, cluster, node_set, until

from slinky.api.names import metadata
from slinky.lab.errors import LabError

pytestmark = pytest.mark.lab

TOPOLOGY = "SwitchName=root Switches=leaf[1-2]\nSwitchName=leaf1\nSwitchName=leaf2\n"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}

#: Workers look only where a test is about it whether slurmctld has lost them.
WATCH = "SLINKY_REREGISTER_SECONDS"

#: An operator that is quick to give a worker up, and deletes one at a time.
HASTY = {
    "unregistered_seconds": 15,
    "deletion_limit_share": 0,
    "deletion_limit_minimum": 1,
    "deletion_limit_window": 25,
}


def gpu(replicas: int = 2, *, image: str = "", mode: str = "StatefulSet", **spec: Any) -> dict[str, Any]:
    """The workers of this module: unprivileged, each with a claim."""
    slurmd: dict[str, Any] = {
        "securityContext": {"privileged": False, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "env": [{"name": WATCH, "value": "0"}],
    }
    if image:
        slurmd["image"] = image
    whole = {
        "slurmd": slurmd,
        "partition": {"enabled": True},
        "volumeClaimTemplates": [CLAIM],
        "revisionHistoryLimit": 5,
        **spec,
    }
    return node_set(replicas, scalingMode=mode, **whole)


@pytest.fixture(scope="module")
def modes(site: Site, operator: Operator) -> Iterator[Site]:
    manifests = [found for found in cluster() if found["kind"] != "NodeSet"]
    for found in manifests:
        if found["kind"] == "ConfigMap":
            found["data"]["topology.conf"] = TOPOLOGY
        if found["kind"] == "Controller":
            found["spec"]["extraConf"] += "TopologyPlugin=topology/tree\nSlurmdTimeout=10\nUnkillableStepTimeout=10\n"
    site.apply(*manifests, gpu())
    until(lambda: site.settled(2), "two workers", 180)
    yield site
    for name in ("node1", "node2"):
        marks = [f"{key}-" for key in (metadata.TOPOLOGY, metadata.FEATURES, metadata.HOSTNAME_OVERRIDE)]
        site.lab.kubectl("annotate", "node", name, *marks)
        site.lab.kubectl("uncordon", name)


def uids(site: Site) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in site.pods().items()}


def marks(site: Site, pod: str) -> dict[str, str]:
    found: dict[str, str] = site.pods()[pod]["metadata"].get("annotations", {})
    return found


def shown(site: Site, pod: str) -> set[str]:
    """The states of Slurm that a pod shows."""
    found = site.pods().get(pod, {}).get("status", {}).get("conditions", [])
    return {one["type"].removeprefix("SlurmNodeState") for one in found if one["type"].startswith("SlurmNodeState")}


def reason(site: Site, kind: str) -> str:
    found = site.get("nodeset", "gpu")["status"].get("conditions", [])
    return next((one["reason"] for one in found if one["type"] == kind and one["status"] == "True"), "")


def patch(site: Site, **spec: Any) -> None:
    site.kubectl("patch", "nodeset/gpu", "--type=merge", "-p", json.dumps({"spec": spec}))


def weights(site: Site) -> dict[str, str]:
    lines = site.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N %w").splitlines()
    return dict(line.split() for line in lines)


def guarded(site: Site) -> int:
    """How many workers the disruption budget sees."""
    return int(site.get("pdb", "slurm-workers-pdb-slurm")["status"].get("expectedPods", 0))


def evict(site: Site, pod: str) -> str:
    """Ask for an eviction; what the API server says against it."""
    path = f"/api/v1/namespaces/{site.namespace}/pods/{pod}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": site.namespace}}
    try:
        site.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))
    except LabError as error:
        return str(error)
    return ""


def test_an_unprivileged_worker_registers_and_runs_jobs_on_its_volume(modes: Site) -> None:
    for pod in modes.pods().values():
        (slurmd,) = [found for found in pod["spec"]["containers"] if found["name"] == "slurmd"]
        assert slurmd["securityContext"] == {"privileged": False, "allowPrivilegeEscalation": False}
    status = modes.on("gpu-0", "cat", "/proc/1/status")
    held = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")), 16)
    assert not held & (1 << 21), "CAP_SYS_ADMIN"
    for number in (0, 1):
        write = "hostname > /data/name && cat /data/name"
        assert modes.on("gpu-0", "srun", "-N1", "-w", f"g-{number}", "sh", "-c", write).strip() == f"g-{number}"


def test_the_end_of_running_work_is_known_and_the_soonest_ending_goes_first(modes: Site) -> None:
    long = modes.job("g-1", "--time=60")
    short = modes.job("g-0", "--time=30")
    until(lambda: all(metadata.POD_DEADLINE in marks(modes, pod) for pod in ("gpu-0", "gpu-1")), "deadlines", 60)
    begun = modes.slurm("scontrol", "show", "job", long, "-o")
    ends = next(word.partition("=")[2] for word in begun.split() if word.startswith("EndTime="))
    offset = modes.slurm("date", "+%z").strip()
    wanted = datetime.strptime(f"{ends}{offset}", "%Y-%m-%dT%H:%M:%S%z").astimezone(UTC)
    assert marks(modes, "gpu-1")[metadata.POD_DEADLINE] == wanted.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert shown(modes, "gpu-1") <= {"Allocated", "Mixed"}
    # Both are busy; the higher ordinal would go first, but its work takes longer.
    modes.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: metadata.POD_CONDEMNED in marks(modes, "gpu-0"), "the choice", 60)
    assert metadata.POD_CONDEMNED not in marks(modes, "gpu-1")
    until(lambda: guarded(modes) == 2, "both guarded, although one is asked for", 60)
    assert "disruption budget" in evict(modes, "gpu-1")
    modes.release(short, "gpu-0")
    modes.completed(short)
    until(lambda: "gpu-0" not in modes.pods(), "its end", 60)
    # It was not the last ordinal that went, and its claim stays, as the policy says.
    assert "data-gpu-0" in modes.kubectl("get", "pvc")
    patch(modes, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    until(lambda: "data-gpu-0" not in modes.kubectl("get", "pvc"), "the claim's end, as the policy says now", 60)
    assert modes.job_state(long) == "RUNNING"
    modes.slurm("scancel", long)
    until(lambda: metadata.POD_DEADLINE not in marks(modes, "gpu-1"), "the end of the deadline", 60)
    until(lambda: shown(modes, "gpu-1") == {"Idle"}, "idleness, on the pod", 60)
    patch(modes, replicas=2, persistentVolumeClaimRetentionPolicy={"whenScaled": "Retain"})
    until(lambda: modes.settled(2), "both back", 90)
    assert modes.on("gpu-1", "cat", "/data/name").strip() == "g-1"


def test_a_busy_worker_is_not_evicted_and_an_idle_one_is(modes: Site) -> None:
    job = modes.job("g-0")
    until(lambda: modes.pods()["gpu-0"]["metadata"]["labels"].get(metadata.POD_PROTECT) == "true", "protection", 60)
    until(lambda: guarded(modes) == 1, "the budget's own view", 60)
    before = uids(modes)

    assert "disruption budget" in evict(modes, "gpu-0")
    assert evict(modes, "gpu-1") == ""
    until(lambda: uids(modes).get("gpu-1") not in {None, before["gpu-1"]}, "another idle worker", 60)
    assert uids(modes)["gpu-0"] == before["gpu-0"]
    modes.release(job, "gpu-0")
    modes.completed(job)
    until(lambda: modes.settled(2), "rest", 90)


def test_an_idle_worker_is_evicted_only_when_drained_if_its_set_says_so(modes: Site) -> None:
    patch(modes, drain={"protectIdle": True})
    until(lambda: guarded(modes) == 2, "both guarded, though idle", 60)
    before, node = uids(modes)["gpu-1"], modes.pods()["gpu-1"]["spec"]["nodeName"]
    assert "disruption budget" in evict(modes, "gpu-1")
    modes.lab.kubectl("cordon", node)
    until(lambda: not evict(modes, "gpu-1"), "its eviction, once Slurm places nothing there", 60)
    modes.lab.kubectl("uncordon", node)
    until(lambda: uids(modes).get("gpu-1") not in {None, before} and modes.settled(2), "a worker in its place", 120)
    patch(modes, drain=None)
    # The budget's own count is not asked: Kubernetes does not count again when the last pod loses its label.
    until(
        lambda: not any(metadata.POD_PROTECT in pod["metadata"]["labels"] for pod in modes.pods().values()),
        "no guard for the idle",
        60,
    )


def test_kubectl_drain_reaches_slurm_waits_for_the_job_and_comes_back(modes: Site) -> None:
    node = modes.pods()["gpu-0"]["spec"]["nodeName"]
    job = modes.job("g-0")
    until(lambda: modes.pods()["gpu-0"]["metadata"]["labels"].get(metadata.POD_PROTECT) == "true", "protection", 60)
    argv = [modes.lab.plane.binaries / "kubectl", f"--kubeconfig={modes.lab.kubeconfig}", "drain", node, "--force"]
    argv += ["--delete-emptydir-data"]
    select = f"--pod-selector={metadata.APP_NAME}=slurmd,{metadata.CLUSTER}=slurm"
    before = uids(modes)["gpu-0"]
    draining = subprocess.Popen([*argv, select, "--timeout=280s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: "Drain" in shown(modes, "gpu-0"), "the drain, on the pod", 60)
        assert modes.reasons()["g-0"] == f"slurm-operator: Node {node} was cordoned"
        assert modes.job_state(job) == "RUNNING"
        modes.release(job, "gpu-0")
        modes.completed(job)
        _, errors = draining.communicate(timeout=300)
        assert draining.returncode == 0, errors
    finally:
        draining.kill()
    modes.lab.kubectl("uncordon", node)
    until(lambda: uids(modes).get("gpu-0") not in {None, before} and modes.settled(2), "a worker in its place", 120)


def test_a_single_worker_is_drained_by_hand_and_stays_so_until_the_hand_lets_go(modes: Site) -> None:
    modes.kubectl("annotate", "pod", "gpu-1", f"{metadata.POD_CORDON}=true")
    until(lambda: "Drain" in shown(modes, "gpu-1"), "the drain, on the pod", 60)
    assert modes.reasons()["g-1"].startswith("slurm-operator: ")
    # Many passes later, a pass of another cause among them, it is still so.
    modes.kubectl("annotate", "nodeset/gpu", "example.test/touched=1")
    time.sleep(8)
    assert modes.states()["g-1"] == "drain"
    modes.kubectl("annotate", "pod", "gpu-1", f"{metadata.POD_CORDON}-")
    until(lambda: shown(modes, "gpu-1") == {"Idle"}, "idleness", 60)


def test_a_bad_image_halts_by_itself_and_going_back_mends_it(modes: Site) -> None:
    good = modes.get("nodeset", "gpu")["status"]["updateRevision"]
    job = modes.job("g-0", "--time=60")
    before = uids(modes)
    rolling = {"maxUnavailable": 2, "maxFailures": 1, "progressDeadlineSeconds": 5}
    bad = gpu(image="example.test/no/such:1", updateStrategy={"rollingUpdate": rolling})
    modes.apply(bad)
    until(lambda: reason(modes, "Degraded") == "UpdateHalted", "the halt", 90)
    status = modes.get("nodeset", "gpu")["status"]
    assert (status["currentRevision"] == good) is not (status["updateRevision"] == good)
    # The busy one was asked to drain within the budget, and is still there with its job.
    assert uids(modes)["gpu-0"] == before["gpu-0"]
    assert uids(modes)["gpu-1"] != before["gpu-1"]
    modes.kubectl("annotate", "nodeset/gpu", f"{metadata.ROLLBACK_TO}=previous")
    until(lambda: modes.get("nodeset", "gpu")["status"]["updateRevision"] == good, "the earlier revision", 60)
    live = modes.get("nodeset", "gpu")
    assert "image" not in live["spec"]["slurmd"]
    assert live["spec"]["updateStrategy"]["rollingUpdate"]["maxFailures"] == 1
    modes.release(job, "gpu-0")
    modes.completed(job)
    until(lambda: modes.settled(2) and not reason(modes, "Degraded"), "health", 120)


def test_a_canary_a_pause_and_a_surge(modes: Site) -> None:
    patch(modes, extraConf="Weight=3", updateStrategy={"rollingUpdate": {"partition": 1, "maxFailures": None}})
    until(lambda: weights(modes) == {"g-0": "1", "g-1": "3"}, "the canary", 90)
    before = uids(modes)
    patch(modes, updateStrategy={"rollingUpdate": {"partition": 0, "paused": True}})
    until(lambda: reason(modes, "Progressing") == "Paused", "the pause", 60)
    assert uids(modes) == before
    # With one worker of two nodes a surge has room: the new one comes first, then the old one goes.
    patch(modes, replicas=1)
    until(lambda: len(modes.pods()) == 1, "one worker", 60)
    (left,) = modes.pods()
    seen: set[int] = set()
    surge = {"paused": False, "maxUnavailable": 0, "maxSurge": 1}
    patch(modes, extraConf="Weight=4", updateStrategy={"rollingUpdate": surge})

    def over() -> bool:
        seen.add(modes.get("nodeset", "gpu")["status"].get("availableReplicas", 0))
        # The record of the one that left stays in Slurm, as it was, until another takes its name.
        new = {weights(modes).get(name.replace("gpu-", "g-")) for name in modes.pods()}
        return set(modes.pods()) != {left} and modes.settled(1) and new == {"4"}

    until(over, "the surge's end", 120)
    assert 0 not in seen
    patch(modes, replicas=2, updateStrategy={"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}})
    until(lambda: modes.settled(2), "both back", 90)


@pytest.mark.parametrize(("policy", "outcome"), [("Cancel", "JobState=CANCELLED"), ("Requeue", "Restarts=1")])
def test_jobs_that_outstay_a_drain(modes: Site, policy: str, outcome: str) -> None:
    modes.kubectl("annotate", "--overwrite", "pod", "gpu-1", f"{metadata.POD_DELETION_COST}=-1")
    job = modes.job("g-1", "--requeue")
    patch(modes, drain={"timeout": "1s", "onTimeout": policy})
    modes.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: "gpu-1" not in modes.pods(), "the worker's end", 90)
    until(lambda: outcome in modes.slurm("scontrol", "show", "job", job), "what becomes of the job", 60)
    modes.slurm("scancel", job, check=False)
    modes.kubectl("scale", "nodeset/gpu", "--replicas=2")
    until(lambda: modes.settled(2), "both back", 90)
    patch(modes, drain=None)


def test_a_scheduled_update_happens_inside_its_reservation(modes: Site) -> None:
    before = uids(modes)

    def schedule(begin: datetime, duration: str) -> None:
        scheduled = {"startTime": begin.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": duration}
        patch(modes, extraConf="Weight=5", updateStrategy={"type": "ScheduledUpdate", "scheduledUpdate": scheduled})

    def reserved() -> str:
        text = modes.slurm("scontrol", "show", "reservation", "SlurmOperatorMaint-gpu", check=False)
        return text if "ReservationName=" in text else ""

    schedule(datetime.now(UTC) + timedelta(days=1), "30m")
    until(lambda: "Duration=00:30:00" in reserved(), "the reservation", 60)
    begin = datetime.now(UTC) + timedelta(seconds=20)
    schedule(begin, "10m")
    held = until(lambda: "Duration=00:10:00" in reserved() and reserved(), "the reservation, moved", 60)
    assert "Nodes=g-[0-1]" in held
    assert "MAINT" in held
    assert metadata.RESERVATION_FINALIZER in modes.get("nodeset", "gpu")["metadata"]["finalizers"]
    if datetime.now(UTC) < begin:
        assert uids(modes) == before
    until(lambda: not set(before.values()) & set(uids(modes).values()), "the update", 120)
    patch(modes, updateStrategy={"type": "RollingUpdate"})
    until(lambda: not reserved(), "the reservation's end", 60)
    until(lambda: modes.settled(2), "rest", 90)
    assert set(weights(modes).values()) == {"5"}, "what they say of themselves, and not an old record"


def test_one_worker_per_node_and_back_with_a_job_running(modes: Site) -> None:
    first = modes.pods()["gpu-0"]["spec"]["nodeName"]
    other = modes.pods()["gpu-1"]["spec"]["nodeName"]
    modes.lab.kubectl("annotate", "node", first, f"{metadata.FEATURES}=nvlink,ib", f"{metadata.TOPOLOGY}=default:leaf2")
    # One has a place in the network and the other has none, and both register with all else that they say.
    until(lambda: "Topology=default:leaf2" in modes.slurm("scontrol", "show", "node", "g-0", "-o"), "the place", 60)
    until(lambda: "k8s/ib,k8s/nvlink" in modes.slurm("scontrol", "show", "node", "g-0", "-o"), "the features", 60)
    job = modes.job("g-0")
    patch(modes, scalingMode="DaemonSet", pruneSlurmNodeRecords="NodeNotFound")
    until(lambda: modes.states().get(other) == "idle", "a worker named after its node", 90)
    assert "gpu-0" in modes.pods(), "it still has its job"
    assert modes.job_state(job) == "RUNNING"
    modes.release(job, "gpu-0")
    modes.completed(job)
    until(lambda: modes.states().get(first) == "idle", "one on the other node too", 120)
    until(lambda: "k8s/ib,k8s/nvlink" in modes.slurm("scontrol", "show", "node", first, "-o"), "the features", 60)
    assert "Topology=default:leaf2" in modes.slurm("scontrol", "show", "node", first, "-o")
    assert "Weight=5" in modes.slurm("scontrol", "show", "node", other, "-o")
    assert modes.get("nodeset", "gpu")["status"]["desired"] == 2

    # Another name for a node: its worker is replaced, and the record of the old name is pruned.
    modes.lab.kubectl("annotate", "node", other, f"{metadata.HOSTNAME_OVERRIDE}=alias")
    until(lambda: modes.states().get("alias") == "idle", "the worker under its new name", 90)
    until(lambda: other not in modes.states(), "the end of the old record", 400)
    (pod,) = [name for name, found in modes.pods().items() if found["spec"]["nodeName"] == first]
    found = modes.on(pod, "getent", "hosts", "alias")
    assert found.split()[1].startswith("alias.slurm-workers-slurm.")

    job = modes.job(first, pod=pod)
    patch(modes, scalingMode="StatefulSet")
    until(lambda: modes.states().get(first) == "drng", "its drain")
    modes.release(job, pod)
    modes.completed(job)
    until(lambda: modes.settled(2) and sorted(modes.pods()) == ["gpu-0", "gpu-1"], "ordinals again", 150)
    until(lambda: reason(modes, "Ready") == "Available", "readiness", 60)


def test_a_worker_that_slurm_has_lost_is_replaced_and_the_deletion_limit_delays_the_next(
    modes: Site, operator: Operator
) -> None:
    operator.stop()
    operator.settings |= HASTY
    operator.start()
    until(lambda: modes.settled(2), "rest", 60)
    before = uids(modes)
    # slurmctld goes on knowing others: a host that stands for nobody, so that its list is not empty.
    modes.slurm("scontrol", "create", "nodename=other", "state=external", "cpus=1")
    modes.slurm("scontrol", "delete", "nodename=g-0")
    modes.slurm("scontrol", "delete", "nodename=g-1")
    until(lambda: len(set(before.values()) - set(uids(modes).values())) == 1, "one replaced", 60)
    until(lambda: reason(modes, "Degraded") == "DeletionsLimited", "the deletion limit", 60)
    until(lambda: not set(before.values()) & set(uids(modes).values()), "the other one too", 90)
    modes.slurm("scontrol", "delete", "nodename=other")
    until(lambda: modes.settled(2), "both back", 90)


def lose_memory(site: Site) -> None:
    """End slurmctld at once, or it would save what it knows, and everything that it has saved."""
    site.slurm("sh", "-c", "find /var/spool/slurmctld -type f -delete; kill -9 $(pidof slurmctld)", check=False)
    until(lambda: site.slurm("scontrol", "ping", check=False).startswith("Slurmctld(primary)"), "slurmctld", 90)
    until(lambda: "g-0" not in site.slurm("sinfo", "-h", "-N"), "an empty list", 60)


def test_a_slurmctld_that_lost_its_memory_costs_no_worker(modes: Site) -> None:
    before = uids(modes)
    lose_memory(modes)
    time.sleep(25)  # longer than a worker may be missing when others are there
    assert uids(modes) == before
    # One that registers anew shows that Slurm is well, and then the other is replaced too.
    modes.kubectl("delete", "pod", "gpu-0", "--wait=false")
    until(lambda: modes.settled(2), "both back", 150)
    assert not set(before.values()) & set(uids(modes).values())


def test_workers_that_slurm_has_lost_come_back_by_themselves_each_after_its_last_job(
    modes: Site, operator: Operator
) -> None:
    old = set(uids(modes).values())
    patch(modes, slurmd={"env": [{"name": WATCH, "value": "5"}]})
    until(lambda: not old & set(uids(modes).values()) and modes.settled(2), "workers that look", 120)
    job = modes.job("g-0")
    until(lambda: shown(modes, "gpu-0") & {"Allocated", "Mixed"}, "work, on the pod", 60)
    time.sleep(10)  # each has looked once: one that slurmctld has never known does nothing
    before = uids(modes)
    lose_memory(modes)
    until(lambda: modes.states().get("g-1") == "idle", "the idle one again", 90)
    until(lambda: reason(modes, "Degraded") == "JobsForgotten", "word of the other", 90)
    time.sleep(25)  # longer than a worker may be missing
    steps = "grep -lx slurmstepd /proc/[0-9]*/comm"
    assert uids(modes) == before
    assert modes.on("gpu-0", "sh", "-c", steps), "its job, which nobody else knows of"
    modes.release(job, "gpu-0")
    until(lambda: modes.settled(2) and not reason(modes, "Degraded"), "the other one, now that its job has ended", 120)
    assert uids(modes) == before
    operator.stop()
    operator.settings = {key: value for key, value in operator.settings.items() if key not in HASTY}
    operator.start()


def test_a_set_made_again_takes_over_its_workers_with_the_job_on_them(modes: Site) -> None:
    until(lambda: modes.settled(2), "rest", 60)
    job = modes.job("g-0", "--partition=g")
    before, was = uids(modes), modes.get("nodeset", "gpu")
    revised = {name: pod["metadata"]["labels"][metadata.REVISION] for name, pod in modes.pods().items()}
    modes.kubectl("delete", "nodeset", "gpu", "--cascade=orphan", "--timeout=60s")

    def orphaned() -> bool:
        said = modes.get("controller", "slurm")["status"]["conditions"]
        return any(one["reason"] == "WorkersOrphaned" for one in said)

    until(orphaned, "a word about the workers", 60)
    assert not any(pod["metadata"].get("ownerReferences") for pod in modes.pods().values())
    time.sleep(5)
    assert "g" in modes.slurm("sinfo", "-h", "-o", "%R").split()
    assert modes.job_state(job) == "RUNNING"
    named = {"name": "gpu", "namespace": modes.namespace}
    modes.apply({"apiVersion": was["apiVersion"], "kind": "NodeSet", "metadata": named, "spec": was["spec"]})
    until(lambda: modes.settled(2) and reason(modes, "Ready") == "Available", "readiness", 60)
    assert uids(modes) == before
    assert {name: pod["metadata"]["labels"][metadata.REVISION] for name, pod in modes.pods().items()} == revised
    until(lambda: not orphaned(), "the end of the wait", 30)
    modes.release(job, "gpu-0")
    modes.completed(job)


def test_deleting_a_set_waits_until_its_deadline_and_no_longer(modes: Site) -> None:
    modes.job("g-0")
    asked = ("-N1", "-p", "g", "-w", "g-0", "--exclusive", "--wrap=true")
    waiting = modes.on("gpu-0", "sbatch", "--parsable", *asked).strip()
    patch(modes, drain={"deletionDeadline": "45s"})
    modes.kubectl("delete", "nodeset", "gpu", "--wait=false")
    until(lambda: "gpu-1" not in modes.pods(), "the idle worker's end", 60)
    assert "gpu-0" in modes.pods()
    until(lambda: not modes.kubectl("get", "nodeset", "gpu", "--ignore-not-found"), "the set's end", 90)
    claims = modes.kubectl("get", "pvc")
    assert "data-gpu-0" in claims
    assert "data-gpu-1" in claims

    # A job of its partition is still in the books of slurmctld, which lives on without the partition.
    def alive() -> bool:
        pod = modes.pods("slurmctld").get("slurm-controller-0", {})
        ready = [found["ready"] for found in pod.get("status", {}).get("containerStatuses", [])]
        partitions = modes.slurm("sinfo", "-h", "-o", "%R", check=False).split()
        return bool(ready) and all(ready) and "all" in partitions and "g" not in partitions

    until(alive, "slurmctld without the partition", 120)
    assert modes.job_state(waiting), "slurmctld has forgotten the job"
