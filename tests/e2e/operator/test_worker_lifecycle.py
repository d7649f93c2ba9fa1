# SPDX-License-Identifier: Apache-2.0
"""Protection, drain, update strategies, scaling modes, loss and deletion of workers while jobs run on them.

The workers are unprivileged and have a volume each. Each test leaves two workers in service.
"""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.operator.site import OperatorSite, cluster, node_set
from tests.support.waiting import until

from slinky.api.names import metadata
from slinky.lab.errors import LabError
from slinky.slurm.conf.topology import Block, Switch, Topology, render_topologies

pytestmark = pytest.mark.lab

#: A tree and blocks beside each other. Annotations of nodes give the positions, so that no host is named here.
TOPOLOGY = render_topologies(
    [
        Topology(
            "default",
            cluster_default=True,
            switches=(Switch("root", children="leaf[1-2]"), Switch("leaf1"), Switch("leaf2")),
        ),
        Topology("nvl", blocks=(Block("b1"), Block("b2")), block_sizes=(1,)),
    ]
)
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}
#: A worker asks slurmctld this often whether it is still registered.
REREGISTER = {"name": "SLINKY_REREGISTER_SECONDS", "value": "3"}
#: After this time a ready worker that Slurm does not know is replaced.
UNREGISTERED_SECONDS = 2.0


def gpu(image: str = "", **spec: Any) -> dict[str, Any]:
    """The NodeSet of this file."""
    slurmd: dict[str, Any] = {
        "securityContext": {"privileged": False, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "env": [REREGISTER],
    }
    if image:
        slurmd["image"] = image
    fields = {"partition": {"enabled": True}, "volumeClaimTemplates": [CLAIM], "revisionHistoryLimit": 5, **spec}
    return node_set(2, scalingMode="StatefulSet", slurmd=slurmd, **fields)


def build(site: OperatorSite) -> None:
    manifests = [item for item in cluster() if item["kind"] != "NodeSet"]
    for item in manifests:
        if item["kind"] == "ConfigMap":
            item["data"] = {**item["data"], "topology.yaml": TOPOLOGY}
        if item["kind"] == "Controller":
            item["spec"]["extraConf"] += "TopologyParam=BlockAsNodeRank\nSlurmdTimeout=10\nUnkillableStepTimeout=10\n"
    site.apply(*manifests, gpu())
    site.wait_workers(2)


def annotations(site: OperatorSite, pod: str) -> dict[str, str]:
    result: dict[str, str] = site.pods().get(pod, {}).get("metadata", {}).get("annotations", {})
    return result


def slurm_states(site: OperatorSite, pod: str) -> set[str]:
    """The states of the Slurm host that the conditions of its pod show."""
    conditions = site.pods().get(pod, {}).get("status", {}).get("conditions", [])
    prefix = "SlurmNodeState"
    return {entry["type"].removeprefix(prefix) for entry in conditions if entry["type"].startswith(prefix)}


def reason(site: OperatorSite, condition: str) -> str:
    """The reason of a condition of the NodeSet that is true."""
    entry = site.condition("nodeset", "gpu", condition)
    return str(entry["reason"]) if entry.get("status") == "True" else ""


def patch(site: OperatorSite, **spec: Any) -> None:
    site.patch("nodeset", "gpu", **spec)


def weights(site: OperatorSite) -> dict[str, str]:
    lines = site.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%N %w").splitlines()
    return dict(line.split() for line in lines)


def show_host(site: OperatorSite, host: str) -> str:
    return site.slurm("scontrol", "show", "node", host, "-o", check=False)


def budgeted_pods(site: OperatorSite) -> int:
    """How many workers the disruption budget selects."""
    return int(site.status("poddisruptionbudget", "slurm-workers-pdb-slurm").get("expectedPods", 0))


def evict(site: OperatorSite, pod: str) -> str:
    """Request an eviction; the refusal of the API server, or nothing."""
    path = f"/api/v1/namespaces/{site.namespace}/pods/{pod}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": site.namespace}}
    try:
        site.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(body))
    except LabError as error:
        return str(error)
    return ""


def test_an_unprivileged_worker_registers_and_runs_jobs_on_its_volume(site: OperatorSite) -> None:
    for pod in site.pods().values():
        (slurmd,) = [container for container in pod["spec"]["containers"] if container["name"] == "slurmd"]
        assert slurmd["securityContext"] == {"privileged": False, "allowPrivilegeEscalation": False}
    status = site.exec("gpu-0", "cat", "/proc/1/status")
    capabilities = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")), 16)
    assert not capabilities & (1 << 21), "CAP_SYS_ADMIN"
    for number in (0, 1):
        write = "hostname > /data/name && cat /data/name"
        assert site.exec("gpu-0", "srun", "-N1", "-w", f"g-{number}", "sh", "-c", write).strip() == f"g-{number}"


def test_the_worker_whose_job_ends_first_is_deleted_first(site: OperatorSite) -> None:
    site.exec("gpu-1", "sh", "-c", "hostname > /data/name")
    long = site.start_job("g-1", "--time=60")
    short = site.start_job("g-0", "--time=30")
    until(lambda: all(metadata.POD_DEADLINE in annotations(site, pod) for pod in ("gpu-0", "gpu-1")), "deadlines")
    words = site.slurm("scontrol", "show", "job", long, "-o").split()
    end = next(word.partition("=")[2] for word in words if word.startswith("EndTime="))
    offset = site.slurm("date", "+%z").strip()
    deadline = datetime.strptime(f"{end}{offset}", "%Y-%m-%dT%H:%M:%S%z").astimezone(UTC)
    assert annotations(site, "gpu-1")[metadata.POD_DEADLINE] == deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert slurm_states(site, "gpu-1") <= {"Allocated", "Mixed"}
    # Both are busy. The higher ordinal would be deleted first, but its job takes longer.
    site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: metadata.POD_CONDEMNED in annotations(site, "gpu-0"), "the choice of a worker")
    assert metadata.POD_CONDEMNED not in annotations(site, "gpu-1")
    until(lambda: budgeted_pods(site) == 2, "a budget for both workers although one replica is wanted")
    assert "disruption budget" in evict(site, "gpu-1")
    site.finish_job(short, "gpu-0")
    until(lambda: "gpu-0" not in site.pods(), "deletion of the worker")
    # The claim of a lower ordinal stays too, as the policy demands.
    assert "data-gpu-0" in site.kubectl("get", "pvc")
    patch(site, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    until(lambda: "data-gpu-0" not in site.kubectl("get", "pvc"), "deletion of the claim by the new policy")
    assert site.job_state(long) == "RUNNING"
    site.slurm("scancel", long)
    until(lambda: metadata.POD_DEADLINE not in annotations(site, "gpu-1"), "removal of the deadline")
    until(lambda: slurm_states(site, "gpu-1") == {"Idle"}, "the state Idle on the pod")
    patch(site, replicas=2, persistentVolumeClaimRetentionPolicy={"whenScaled": "Retain"})
    site.wait_workers(2)
    assert site.exec("gpu-1", "cat", "/data/name").strip() == "g-1"


def test_a_busy_worker_is_not_evicted_and_an_idle_one_is(site: OperatorSite) -> None:
    job = site.start_job("g-0")
    until(lambda: site.is_protected("gpu-0"), "protection of the busy worker")
    until(lambda: budgeted_pods(site) == 1, "the disruption budget")
    before = site.uids()
    assert "disruption budget" in evict(site, "gpu-0")
    assert evict(site, "gpu-1") == ""
    until(lambda: site.uids().get("gpu-1", before["gpu-1"]) != before["gpu-1"], "another idle worker")
    assert site.uids()["gpu-0"] == before["gpu-0"]
    site.finish_job(job, "gpu-0")
    site.wait_workers(2)


def test_protect_idle_allows_the_eviction_of_drained_workers_only(site: OperatorSite) -> None:
    patch(site, drain={"protectIdle": True})
    until(lambda: budgeted_pods(site) == 2, "a budget for both idle workers")
    before, node = site.uids()["gpu-1"], site.pods()["gpu-1"]["spec"]["nodeName"]
    assert "disruption budget" in evict(site, "gpu-1")
    site.lab.kubectl("cordon", node)
    until(lambda: not evict(site, "gpu-1"), "eviction after the drain in Slurm")
    site.lab.kubectl("uncordon", node)
    until(lambda: site.uids().get("gpu-1", before) != before, "another worker")
    site.wait_workers(2)
    patch(site, drain=None)
    # The status of the budget is of no use here: Kubernetes does not update it when the last pod loses its label.
    until(lambda: not any(map(site.is_protected, site.pods())), "the end of the protection")


def test_kubectl_drain_waits_for_the_job_and_gives_its_reason_to_slurm(site: OperatorSite) -> None:
    node = site.pods()["gpu-0"]["spec"]["nodeName"]
    job, before = site.start_job("g-0"), site.uids()["gpu-0"]
    until(lambda: site.is_protected("gpu-0"), "protection of the busy worker")
    site.lab.kubectl("annotate", "node", node, f"{metadata.NODE_CORDON_REASON}=fan; rm -rf $(x)")
    argv = [site.lab.plane.binaries / "kubectl", f"--kubeconfig={site.lab.kubeconfig}", "drain", node, "--force"]
    select = f"--pod-selector={metadata.APP_NAME}=slurmd,{metadata.CLUSTER}=slurm"
    argv += ["--delete-emptydir-data", select, "--timeout=280s"]
    draining = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: "Drain" in slurm_states(site, "gpu-0"), "the drain on the pod")
        assert site.drain_reasons()["g-0"] == "slurm-operator: fan; rm -rf $(x)"
        site.lab.kubectl("annotate", "node", node, f"{metadata.NODE_CORDON_REASON}-")
        cordoned = f"slurm-operator: Node {node} was cordoned"
        until(lambda: site.drain_reasons()["g-0"] == cordoned, "the reason without an annotation")
        assert site.job_state(job) == "RUNNING"
        assert draining.poll() is None
        site.finish_job(job, "gpu-0")
        _, errors = draining.communicate(timeout=300)
        assert draining.returncode == 0, errors
    finally:
        draining.kill()
        draining.communicate()
    site.lab.kubectl("uncordon", node)
    until(lambda: site.uids().get("gpu-0", before) != before, "another worker")
    site.wait_workers(2)


def test_a_worker_that_a_user_cordons_stays_drained_until_the_user_uncordons_it(site: OperatorSite) -> None:
    site.kubectl("annotate", "pod", "gpu-1", f"{metadata.POD_CORDON}=true")
    until(lambda: "Drain" in slurm_states(site, "gpu-1"), "the drain on the pod")
    assert site.drain_reasons()["g-1"].startswith("slurm-operator: ")
    site.reconcile_again()
    assert site.host_states()["g-1"] == "drain"
    site.kubectl("annotate", "pod", "gpu-1", f"{metadata.POD_CORDON}-")
    until(lambda: slurm_states(site, "gpu-1") == {"Idle"}, "the state Idle on the pod")


def test_an_update_to_a_bad_image_halts_and_a_rollback_repairs_it(site: OperatorSite) -> None:
    good = site.status("nodeset", "gpu")["updateRevision"]
    job = site.start_job("g-0", "--time=60")
    before = site.uids()
    rolling = {"maxUnavailable": 2, "maxFailures": 1, "progressDeadlineSeconds": 5}
    site.apply(gpu("example.test/no/such:1", updateStrategy={"rollingUpdate": rolling}))
    until(lambda: reason(site, "Degraded") == "UpdateHalted", "the halt")
    status = site.status("nodeset", "gpu")
    assert (status["currentRevision"] == good) is not (status["updateRevision"] == good)
    # The busy worker drains, as the budget allows, and keeps its job.
    assert site.uids()["gpu-0"] == before["gpu-0"]
    assert site.uids()["gpu-1"] != before["gpu-1"]
    site.kubectl("annotate", "nodeset/gpu", f"{metadata.ROLLBACK_TO}=previous")
    until(lambda: site.status("nodeset", "gpu")["updateRevision"] == good, "the earlier revision")
    spec = site.get("nodeset", "gpu")["spec"]
    assert "image" not in spec["slurmd"]
    assert spec["updateStrategy"]["rollingUpdate"]["maxFailures"] == 1
    site.finish_job(job, "gpu-0")
    site.wait_workers(2)
    until(lambda: not reason(site, "Degraded"), "the end of the condition Degraded")


def test_a_canary_a_pause_and_a_surge(site: OperatorSite) -> None:
    weight = weights(site)["g-0"]
    patch(site, extraConf="Weight=3", updateStrategy={"rollingUpdate": {"partition": 1, "maxFailures": None}})
    until(lambda: weights(site) == {"g-0": weight, "g-1": "3"}, "the canary")
    before = site.uids()
    patch(site, updateStrategy={"rollingUpdate": {"partition": 0, "paused": True}})
    until(lambda: reason(site, "Progressing") == "Paused", "the pause")
    assert site.uids() == before
    # With one worker on two nodes there is room for a surge: the new worker starts before the old one is deleted.
    patch(site, replicas=1)
    until(lambda: len(site.pods()) == 1, "one worker")
    (old,) = site.pods()
    available: set[int] = set()
    surge = {"paused": False, "maxUnavailable": 0, "maxSurge": 1}
    patch(site, extraConf="Weight=4", updateStrategy={"rollingUpdate": surge})

    def is_updated() -> bool:
        available.add(site.status("nodeset", "gpu").get("availableReplicas", 0))
        if set(site.pods()) == {old} or not site.has_workers(1):
            return False
        # Slurm keeps the record of the old worker until another worker takes its name.
        return {weights(site).get(name.replace("gpu-", "g-")) for name in site.pods()} == {"4"}

    until(is_updated, "the end of the surge")
    assert 0 not in available
    patch(site, replicas=2, updateStrategy={"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}})
    site.wait_workers(2)


@pytest.mark.parametrize(("policy", "outcome"), [("Cancel", "JobState=CANCELLED"), ("Requeue", "Restarts=1")])
def test_jobs_that_exceed_the_drain_timeout(site: OperatorSite, policy: str, outcome: str) -> None:
    site.kubectl("annotate", "--overwrite", "pod", "gpu-1", f"{metadata.POD_DELETION_COST}=-1")
    job = site.start_job("g-1", "--requeue")
    patch(site, drain={"timeout": "1s", "onTimeout": policy})
    site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: "gpu-1" not in site.pods(), "deletion of the worker")
    until(lambda: outcome in site.slurm("scontrol", "show", "job", job), "the outcome of the job")
    site.slurm("scancel", job, check=False)
    patch(site, replicas=2, drain=None)
    site.wait_workers(2)


def test_a_scheduled_update_happens_inside_its_reservation(site: OperatorSite) -> None:
    before = site.uids()

    def schedule(begin: datetime, duration: str) -> None:
        scheduled = {"startTime": begin.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration": duration}
        patch(site, extraConf="Weight=5", updateStrategy={"type": "ScheduledUpdate", "scheduledUpdate": scheduled})

    def reservation() -> str:
        text = site.slurm("scontrol", "show", "reservation", "SlurmOperatorMaint-gpu", check=False)
        return text if "ReservationName=" in text else ""

    schedule(datetime.now(UTC) + timedelta(days=1), "30m")
    until(lambda: "Duration=00:30:00" in reservation(), "the reservation")
    begin = datetime.now(UTC) + timedelta(seconds=20)
    schedule(begin, "10m")
    until(lambda: "Duration=00:10:00" in reservation(), "the reservation at its new time")
    text = reservation()
    assert "Nodes=g-[0-1]" in text
    assert "MAINT" in text
    assert metadata.RESERVATION_FINALIZER in site.get("nodeset", "gpu")["metadata"]["finalizers"]
    uids = site.uids()
    assert uids == before or datetime.now(UTC) >= begin
    until(lambda: not set(before.values()) & set(site.uids().values()), "the update")
    patch(site, updateStrategy={"type": "RollingUpdate"})
    until(lambda: not reservation(), "deletion of the reservation")
    site.wait_workers(2)
    assert set(weights(site).values()) == {"5"}, "the weights of the new workers, not of their old records"


def test_the_scaling_mode_changes_to_one_worker_per_node_and_back_while_jobs_run(site: OperatorSite) -> None:
    first = site.pods()["gpu-0"]["spec"]["nodeName"]
    other = site.pods()["gpu-1"]["spec"]["nodeName"]
    site.lab.kubectl("annotate", "node", first, f"{metadata.FEATURES}=nvlink,ib", f"{metadata.TOPOLOGY}=default:leaf2")
    # One node has a topology and the other has none; both workers register with all other settings.
    until(lambda: "Topology=default:leaf2" in show_host(site, "g-0"), "the topology")
    until(lambda: "k8s/ib,k8s/nvlink" in show_host(site, "g-0"), "the features")
    job = site.start_job("g-0")
    patch(site, scalingMode="DaemonSet", pruneSlurmNodeRecords="NodeNotFound", extraConf="Weight=6")
    until(lambda: site.host_states().get(other) == "idle", "a worker with the name of its node")
    assert "gpu-0" in site.pods(), "it still has its job"
    assert site.job_state(job) == "RUNNING"
    site.finish_job(job, "gpu-0")
    until(lambda: site.host_states().get(first) == "idle", "a worker on the other node")
    until(lambda: "k8s/ib,k8s/nvlink" in show_host(site, first), "the features")
    assert "Topology=default:leaf2" in show_host(site, first)
    assert "Weight=6" in show_host(site, other)
    assert site.status("nodeset", "gpu")["desired"] == 2

    # A new host name for a node: its worker is replaced, and the record of the old name is pruned.
    site.lab.kubectl("annotate", "node", other, f"{metadata.HOSTNAME_OVERRIDE}=alias")
    until(lambda: site.host_states().get("alias") == "idle", "the worker with its new name")
    until(lambda: other not in site.host_states(), "removal of the old record")
    (pod,) = [name for name, item in site.pods().items() if item["spec"]["nodeName"] == first]
    assert site.exec(pod, "getent", "hosts", "alias").split()[1].startswith("alias.slurm-workers-slurm.")

    job = site.start_job(first, pod=pod)
    patch(site, scalingMode="StatefulSet")
    until(lambda: site.host_states().get(first) == "drng", "the drain of the worker with a job")
    site.finish_job(job, pod)
    until(lambda: sorted(site.pods()) == ["gpu-0", "gpu-1"] and site.has_workers(2), "workers with ordinals")
    until(lambda: reason(site, "Ready") == "Available", "readiness")


def test_the_place_of_a_host_in_trees_and_blocks_follows_the_annotation_of_its_node(site: OperatorSite) -> None:
    node = site.pods()["gpu-0"]["spec"]["nodeName"]

    def annotate(topology: str) -> None:
        site.lab.kubectl("annotate", "node", node, "--overwrite", f"{metadata.TOPOLOGY}{topology}")

    def members(topology: str, unit: str) -> str:
        """The hosts of a switch or block, as slurmctld schedules with it."""
        return site.slurm("scontrol", "show", "topology", topology, f"unit={unit}", check=False)

    annotate("=default:leaf1,nvl:b1")
    until(lambda: "Nodes=g-0" in members("nvl", "b1") and "Nodes=g-0" in members("default", "leaf1"), "the place")
    annotate("=default:leaf2,nvl:b2")
    until(lambda: "Nodes=g-0" in members("nvl", "b2") and "Nodes=g-0" in members("default", "leaf2"), "another place")
    assert "g-0" not in members("nvl", "b1") + members("default", "leaf1")
    annotate("-")
    until(lambda: "g-0" not in members("nvl", "b2") + members("default", "leaf2"), "no place")


def lose_state(site: OperatorSite) -> None:
    """Kill slurmctld before it can save its state, and delete all that it has saved."""
    site.slurm("sh", "-c", "find /var/spool/slurmctld -type f -delete; kill -9 $(pidof slurmctld)", check=False)
    until(lambda: site.slurm("scontrol", "ping", check=False).startswith("Slurmctld(primary)"), "slurmctld")


def runs_steps(site: OperatorSite, pod: str) -> bool:
    """Whether a job step runs in a worker. Processes end while they are listed, so errors of grep mean nothing."""
    script = "grep -lsx slurmstepd /proc/[0-9]*/comm || true"
    return bool(site.exec(pod, "sh", "-c", script).strip())


def test_workers_that_slurm_has_lost_come_back_by_themselves_each_after_its_last_job(site: OperatorSite) -> None:
    site.operator.stop()
    site.operator.start(unregistered_seconds=UNREGISTERED_SECONDS)
    job = site.start_job("g-0")
    until(lambda: slurm_states(site, "gpu-0") & {"Allocated", "Mixed"}, "the job on the pod")
    before = site.uids()
    lose_state(site)
    until(lambda: site.host_states().get("g-1") == "idle", "registration of the idle worker")
    until(lambda: reason(site, "Degraded") == "JobsForgotten", "the condition for the busy worker")
    for _ in range(3):  # together these take longer than UNREGISTERED_SECONDS
        site.reconcile_again()
    assert site.uids() == before
    assert "g-0" not in site.host_states()
    assert runs_steps(site, "gpu-0"), "the job that Slurm does not know"
    site.release_job(job, "gpu-0")
    site.wait_workers(2)
    until(lambda: not reason(site, "Degraded"), "the end of the condition")
    assert site.uids() == before
    site.operator.stop()
    site.operator.start(unregistered_seconds=90.0)


def test_a_node_set_that_is_created_again_adopts_its_workers_and_their_job(site: OperatorSite) -> None:
    job = site.start_job("g-0", "--partition=g")
    before, old = site.uids(), site.get("nodeset", "gpu")
    revisions = {name: pod["metadata"]["labels"][metadata.REVISION] for name, pod in site.pods().items()}
    site.kubectl("delete", "nodeset", "gpu", "--cascade=orphan", "--timeout=60s")

    def is_orphaned() -> bool:
        conditions = site.status("controller", "slurm")["conditions"]
        return any(entry["reason"] == "WorkersOrphaned" for entry in conditions)

    until(is_orphaned, "the condition of the Controller")
    assert not any(pod["metadata"].get("ownerReferences") for pod in site.pods().values())
    site.reconcile_again("controller", "slurm")
    assert "g" in site.slurm("sinfo", "-h", "-o", "%R").split()
    assert site.job_state(job) == "RUNNING"
    name = {"name": "gpu", "namespace": site.namespace}
    site.apply({"apiVersion": old["apiVersion"], "kind": "NodeSet", "metadata": name, "spec": old["spec"]})
    until(lambda: site.has_workers(2) and reason(site, "Ready") == "Available", "readiness")
    assert site.uids() == before
    assert {name: pod["metadata"]["labels"][metadata.REVISION] for name, pod in site.pods().items()} == revisions
    until(lambda: not is_orphaned(), "the end of the condition")
    site.finish_job(job, "gpu-0")


def test_deleting_a_node_set_waits_for_jobs_until_its_deadline(site: OperatorSite) -> None:
    site.is_spent = True
    site.start_job("g-0")
    options = ("-N1", "-p", "g", "-w", "g-0", "--exclusive", "--wrap=true")
    pending = site.exec("gpu-0", "sbatch", "--parsable", *options).strip()
    site.kubectl("delete", "nodeset", "gpu", "--wait=false")
    until(lambda: "gpu-1" not in site.pods(), "deletion of the idle worker")
    site.reconcile_again()
    assert "gpu-0" in site.pods()
    patch(site, drain={"deletionDeadline": "1s"})
    until(lambda: not site.exists("nodeset", "gpu"), "deletion of the NodeSet")
    claims = site.kubectl("get", "pvc")
    assert "data-gpu-0" in claims
    assert "data-gpu-1" in claims

    # slurmctld runs on without the partition although it still has a job of it.
    def serves_without_partition() -> bool:
        pod = site.pods("slurmctld").get("slurm-controller-0", {})
        ready = [container["ready"] for container in pod.get("status", {}).get("containerStatuses", [])]
        partitions = site.slurm("sinfo", "-h", "-o", "%R", check=False).split()
        return bool(ready) and all(ready) and "all" in partitions and "g" not in partitions

    until(serves_without_partition, "slurmctld without the partition")
    assert site.job_state(pending), "slurmctld has forgotten the job"
