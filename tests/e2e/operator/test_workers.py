# SPDX-License-Identifier: Apache-2.0
"""The workers of a NodeSet on real kubelets with a real Slurm: drain, scaling, update, work without the operator."""

import json
from functools import partial
from typing import Any

import pytest
from tests.e2e.operator.site import OperatorSite, cluster, node_set
from tests.support.waiting import until

from slinky.api.names import metadata

pytestmark = pytest.mark.lab

#: An operator that soon replaces a worker that Slurm does not know, and deletes one worker in 15 seconds at most.
IMPATIENT = {
    "unregistered_seconds": 5.0,
    "deletion_limit_share": 0.0,
    "deletion_limit_minimum": 1,
    "deletion_limit_window": 15.0,
}
OBJECTS = (("controller", "slurm"), ("restapi", "slurm"), ("nodeset", "gpu"))


def build(site: OperatorSite) -> None:
    site.apply(*cluster())
    site.wait_workers(2)


def test_a_cluster_forms_and_runs_a_job_across_its_nodes(site: OperatorSite) -> None:
    hosts = site.exec("gpu-0", "srun", "-N2", "hostname").split()
    assert sorted(hosts) == ["g-0", "g-1"]
    nodes = {pod["spec"]["nodeName"] for pod in site.pods().values()}
    assert len(nodes) == 2
    for kind, name in OBJECTS:
        for condition in ("Ready", "SlurmReachable"):
            site.kubectl("wait", f"{kind}/{name}", f"--for=condition={condition}", "--timeout=280s")


def test_daemons_print_json_lines_that_name_their_cluster_host_and_job(site: OperatorSite) -> None:
    job = site.start_job("g-0")
    site.slurm("scancel", job)
    rest = next(iter(site.pods("slurmrestd")))
    cluster_name = f"{site.namespace}_slurm"
    for pod, container, node in (
        ("slurm-controller-0", "slurmctld", "slurm-controller-0"),
        ("slurm-controller-0", "logfile", "slurm-controller-0"),
        ("gpu-0", "slurmd", "g-0"),
        (rest, "slurmrestd", rest),
    ):
        lines = [json.loads(line) for line in site.kubectl("logs", pod, "-c", container).splitlines()]
        assert lines, f"{container} of {pod} has printed nothing"
        assert {(line["cluster"], line["node"]) for line in lines} == {(cluster_name, node)}
        assert all(line["message"] and line["level"] and line["time"].endswith("Z") for line in lines)
    lines = [json.loads(line) for line in site.kubectl("logs", "slurm-controller-0", "-c", "slurmctld").splitlines()]
    assert any(line.get("job") == int(job) for line in lines)


def test_the_log_filter_keeps_odd_bytes_signals_and_exit_codes_and_never_ends_the_daemon(site: OperatorSite) -> None:
    def run(script: str) -> list[Any]:
        wrapped = f"slinky-log demo sh -c '{script}'; echo exit $?"
        *lines, code = site.exec("gpu-0", "sh", "-c", wrapped).splitlines()
        return [*(json.loads(line)["message"] for line in lines), code]

    assert run(r'printf "demo: error: a\377\000b\n\nend"; exit 3') == ["a\\xff\x00b", "end", "exit 3"]
    # A filter that is killed is replaced, and a signal reaches the daemon.
    killed = 'trap "echo term; exit 4" TERM; pkill -KILL -x -P $PPID slinky-log; echo on; kill $PPID; sleep 9 & wait'
    assert run(killed) == ["on", "term", "exit 4"]
    # One that is killed after the daemon has ended is replaced too, so that the last lines are printed.
    late = "pkill -STOP -x -P $PPID slinky-log; echo last; (sleep 1; pkill -KILL -x -P $PPID slinky-log) & exit 5"
    assert run(late) == ["last", "exit 5"]
    # A process that holds the pipe open does not delay the end.
    assert run("sleep 60 & echo left; kill -9 $$") == ["left", "exit 137"]
    many = site.exec("gpu-0", "sh", "-c", "slinky-log demo seq 100000 | tail -n 1")
    assert json.loads(many)["message"] == "100000"
    assert site.exec("gpu-0", "sh", "-c", "SLINKY_LOG_FORMAT=plain slinky-log demo echo x") == "x\n"


def test_a_converged_system_writes_nothing(site: OperatorSite) -> None:
    def state() -> tuple[dict[str, float], list[str]]:
        versions = site.kubectl("get", "all,cm,secret,pdb", "-o", "jsonpath={..resourceVersion}").split()
        return site.operator.writes(), sorted(versions)

    def writes_nothing() -> bool:
        before = state()
        for kind, name in OBJECTS:
            site.reconcile_again(kind, name)
        return state() == before

    # The cluster may have been built a moment ago; once it has converged, it stays so.
    until(lambda: writes_nothing() or None, "a round of reconciles without a write")
    assert writes_nothing()


def shows_drain(site: OperatorSite, reason: str) -> bool:
    """Whether the operator has seen a drain of the worker and shows it."""
    conditions = site.pods()["gpu-1"]["status"]["conditions"]
    return any(one["type"] == "SlurmNodeStateDrain" and one["message"] == reason for one in conditions)


def test_a_foreign_drain_is_never_undone(site: OperatorSite) -> None:
    site.slurm("scontrol", "update", "nodename=g-1", "state=drain", "reason=disk")
    until(partial(shows_drain, site, "disk"), "the condition of the pod that shows the drain")
    node = site.pods()["gpu-1"]["spec"]["nodeName"]
    site.lab.kubectl("cordon", node)
    site.reconcile_again()
    site.lab.kubectl("uncordon", node)
    site.reconcile_again()
    assert site.host_states()["g-1"] == "drain"
    assert site.drain_reasons()["g-1"] == "disk"
    site.slurm("scontrol", "update", "nodename=g-1", "state=resume")
    until(lambda: not shows_drain(site, "disk"), "removal of the condition")


def test_a_foreign_drain_outlives_the_pod_of_its_worker(site: OperatorSite) -> None:
    first = site.uids()["gpu-1"]
    # The operator has not seen the drain when the pod is deleted.
    site.slurm("scontrol", "update", "nodename=g-1", "state=drain", "reason=bad GPU")
    site.kubectl("delete", "pod", "gpu-1", "--wait=false")

    def is_kept() -> bool:
        created_again = site.uids().get("gpu-1", first) != first and site.host_states().get("g-1") == "drain"
        return created_again and site.drain_reasons().get("g-1") == "bad GPU"

    def belongs_to_slurm() -> bool:
        """Whether the operator leaves the drain to Slurm, so that a resume ends it."""
        worker = site.pods()["gpu-1"]["metadata"]
        return worker["uid"] != first and metadata.POD_KEPT_DRAIN not in worker["annotations"]

    until(is_kept, "the drain of another worker")
    until(belongs_to_slurm, "removal of the annotation")
    assert site.drain_reasons()["g-1"] == "bad GPU"
    assert "drain bad GPU (set by slurm)" in site.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
    site.slurm("scontrol", "update", "nodename=g-1", "state=resume")
    site.wait_workers(2)


def test_scaling_in_takes_the_idle_worker_and_waits_for_the_busy_one(site: OperatorSite) -> None:
    job = site.start_job("g-1")
    until(lambda: site.is_protected("gpu-1"), "protection of the busy worker")
    site.kubectl("scale", "nodeset/gpu", "--replicas=0")
    until(lambda: "gpu-0" not in site.pods(), "deletion of the idle worker")
    assert "gpu-1" in site.pods()
    assert site.host_states()["g-1"] == "drng"
    # The draining worker takes no new jobs, so a NodeSet that grows again gets another worker.
    site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: site.host_states().get("g-0") == "idle", "another worker beside the draining one")
    assert "gpu-1" in site.pods()
    site.kubectl("scale", "nodeset/gpu", "--replicas=0")
    until(lambda: "gpu-0" not in site.pods(), "deletion of the other worker")
    site.finish_job(job, "gpu-1")
    until(lambda: not site.pods(), "deletion of the worker that was busy")
    site.kubectl("scale", "nodeset/gpu", "--replicas=2")
    site.wait_workers(2)


def test_without_slurm_workers_are_created_but_none_is_chosen_for_deletion(site: OperatorSite) -> None:
    site.patch("restapi", "slurm", replicas=0)
    until(lambda: not site.pods("slurmrestd"), "deletion of slurmrestd")
    job = site.start_job("g-1")  # without this job the higher ordinal would be deleted first
    site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: site.condition("nodeset", "gpu", "Progressing").get("reason") == "WaitingForSlurm", "the condition")
    site.kubectl("scale", "nodeset/gpu", "--replicas=3")
    until(lambda: "gpu-2" in site.pods(), "a third worker without Slurm")
    site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: "gpu-2" not in site.pods(), "deletion of the worker that was never scheduled to a node")
    site.reconcile_again()
    pods = site.pods()
    assert sorted(pods) == ["gpu-0", "gpu-1"]
    assert not any(metadata.POD_CONDEMNED in pod["metadata"]["annotations"] for pod in pods.values())
    site.patch("restapi", "slurm", replicas=1)
    until(lambda: list(site.pods()) == ["gpu-1"], "deletion of the idle worker")
    site.finish_job(job, "gpu-1")
    site.kubectl("scale", "nodeset/gpu", "--replicas=2")
    site.wait_workers(2)


def test_a_new_revision_comes_one_by_one_and_with_new_settings(site: OperatorSite) -> None:
    job = site.start_job("g-0")
    old = site.uids()["gpu-1"]
    site.apply(node_set(2, extraConf="Weight=7", updateStrategy={"rollingUpdate": {"maxUnavailable": 1}}))
    fewest = 2

    def is_updated() -> bool:
        nonlocal fewest
        status = site.status("nodeset", "gpu")
        fewest = min(fewest, status.get("availableReplicas", 0))
        revisions = {pod["metadata"]["labels"][metadata.REVISION] for pod in site.pods().values()}
        return revisions == {status["nodeSetHash"]} and site.has_workers(2)

    until(lambda: is_updated() or site.uids().get("gpu-1", old) != old, "replacement of the idle worker")
    assert site.job_state(job) == "RUNNING"
    site.finish_job(job, "gpu-0")
    until(is_updated, "end of the update")
    assert fewest == 1
    assert site.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%w").split() == ["7", "7"]


def test_workers_that_slurm_has_lost_are_replaced_one_after_another(site: OperatorSite) -> None:
    defaults = dict(site.operator.settings)
    site.operator.stop()
    site.operator.start(**IMPATIENT)
    site.wait_workers(2)
    before = set(site.uids().values())
    # Another host, so that the list of hosts is not empty: an empty list deletes no worker.
    site.slurm("scontrol", "create", "nodename=other", "state=external", "cpus=1")
    for host in ("g-0", "g-1"):
        site.slurm("scontrol", "delete", f"nodename={host}")

    def is_limited() -> bool:
        is_reported = site.condition("nodeset", "gpu", "Degraded").get("reason") == "DeletionsLimited"
        return is_reported and len(before & set(site.uids().values())) == 1

    until(is_limited, "the condition for the deletion limit while one worker is left")
    until(lambda: not before & set(site.uids().values()), "replacement of the second worker")
    site.slurm("scontrol", "delete", "nodename=other")
    site.wait_workers(2)
    site.operator.stop()
    site.operator.settings = defaults
    site.operator.start()


def test_jobs_and_slurmctld_need_no_operator(site: OperatorSite) -> None:
    site.operator.stop()
    uid = site.uids("slurmctld")["slurm-controller-0"]
    site.kubectl("delete", "pod", "slurm-controller-0", "--wait=false")
    until(lambda: site.uids("slurmctld").get("slurm-controller-0", uid) != uid, "another slurmctld")
    until(lambda: site.exec("gpu-0", "srun", "-N2", "hostname", check=False), "a job without the operator")
    before = site.uids()
    site.operator.start()
    site.reconcile_again()
    assert site.uids() == before
