# SPDX-License-Identifier: Apache-2.0
"""Laws of workers on real kubelets with a real Slurm. The tests of this module share one cluster, in order."""

import json
import time

import pytest
from tests.e2e.operator.site import Operator, Site, node_set, until

pytestmark = pytest.mark.lab


def test_a_cluster_forms_and_runs_a_job_across_its_nodes(slurm_site: Site) -> None:
    hosts = slurm_site.on("gpu-0", "srun", "-N2", "hostname").split()
    assert sorted(hosts) == ["g-0", "g-1"]
    nodes = {pod["spec"]["nodeName"] for pod in slurm_site.pods().values()}
    assert len(nodes) == 2


def test_a_converged_system_writes_nothing(slurm_site: Site, operator: Operator) -> None:
    def quiet() -> bool:
        before = operator.writes()
        time.sleep(8)
        return operator.writes() == before

    def versions() -> list[str]:
        kinds = "all,cm,secret,pdb,nodesets,controllers,restapis"
        return sorted(slurm_site.kubectl("get", kinds, "-o", "jsonpath={..resourceVersion}").split())

    until(quiet, "rest", 60)
    before = versions()
    time.sleep(10)
    assert versions() == before


def test_every_kind_says_that_it_is_ready(slurm_site: Site) -> None:
    for kind, name in (("controller", "slurm"), ("restapi", "slurm"), ("nodeset", "gpu")):
        slurm_site.kubectl("wait", f"{kind}/{name}", "--for=condition=Ready", "--timeout=280s")
        slurm_site.kubectl("wait", f"{kind}/{name}", "--for=condition=SlurmReachable", "--timeout=280s")


def test_a_cordoned_node_drains_its_host_and_back(slurm_site: Site) -> None:
    node = slurm_site.pods()["gpu-0"]["spec"]["nodeName"]
    slurm_site.lab.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason=fan; rm -rf $(x)")
    slurm_site.lab.kubectl("cordon", node)
    until(lambda: slurm_site.states().get("g-0") in {"drain", "drng"}, "a drain", 20)
    assert slurm_site.reasons()["g-0"] == "slurm-operator: fan; rm -rf $(x)"
    slurm_site.lab.kubectl("uncordon", node)
    slurm_site.lab.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason-")
    until(lambda: slurm_site.states().get("g-0") == "idle", "an undrain", 20)


def test_a_foreign_drain_is_never_undone(slurm_site: Site) -> None:
    slurm_site.slurm("scontrol", "update", "nodename=g-1", "state=drain", "reason=disk")
    node = slurm_site.pods()["gpu-1"]["spec"]["nodeName"]
    slurm_site.lab.kubectl("cordon", node)
    time.sleep(4)
    slurm_site.lab.kubectl("uncordon", node)
    time.sleep(6)
    assert slurm_site.states()["g-1"] == "drain"
    assert slurm_site.reasons()["g-1"] == "disk"
    slurm_site.slurm("scontrol", "update", "nodename=g-1", "state=resume")


def test_a_drain_in_slurm_is_seen_on_the_pod(slurm_site: Site) -> None:
    slurm_site.slurm("scontrol", "update", "nodename=g-1", "state=drain", "reason=seen")

    def shown() -> bool:
        conditions = slurm_site.pods()["gpu-1"]["status"]["conditions"]
        return any(c["type"] == "SlurmNodeStateDrain" and c["message"] == "seen" for c in conditions)

    until(shown, "the condition", 20)
    slurm_site.slurm("scontrol", "update", "nodename=g-1", "state=resume")
    until(lambda: not shown(), "its end", 20)


def test_scaling_in_takes_the_idle_worker_and_waits_for_the_busy_one(slurm_site: Site) -> None:
    job = slurm_site.job("g-1")
    label = "nodeset.slinky.slurm.net/pod-protect"
    until(lambda: slurm_site.pods()["gpu-1"]["metadata"]["labels"].get(label) == "true", "protection", 10)
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=0")
    until(lambda: "gpu-0" not in slurm_site.pods(), "the idle worker's end", 30)
    assert "gpu-1" in slurm_site.pods()
    assert slurm_site.states()["g-1"] == "drng"
    # It takes no new jobs for as long as its own takes, so a set that grows again gets another one.
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: slurm_site.states().get("g-0") == "idle", "another worker beside it", 90)
    assert "gpu-1" in slurm_site.pods()
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=0")
    until(lambda: "gpu-0" not in slurm_site.pods(), "its end", 60)
    slurm_site.release(job, "gpu-1")
    slurm_site.completed(job)
    until(lambda: not slurm_site.pods(), "the busy worker's end", 60)
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=2")
    until(lambda: slurm_site.settled(2), "both back", 90)


def test_without_sight_of_slurm_workers_are_made_but_none_is_chosen(slurm_site: Site) -> None:
    slurm_site.kubectl("patch", "restapi/slurm", "--type=merge", "-p", json.dumps({"spec": {"replicas": 0}}))
    until(lambda: not slurm_site.pods("slurmrestd"), "slurmrestd's end", 60)
    job = slurm_site.job("g-1")  # the higher number would go first, were it not for this
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    progress = "jsonpath={.status.conditions[?(@.type=='Progressing')].reason}"
    until(lambda: slurm_site.kubectl("get", "nodeset/gpu", "-o", progress) == "WaitingForSlurm", "word of it", 20)
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=3")
    until(lambda: "gpu-2" in slurm_site.pods(), "a third worker without Slurm", 20)
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=1")
    until(lambda: "gpu-2" not in slurm_site.pods(), "the end of one that was never placed", 20)
    time.sleep(10)
    found = slurm_site.pods()
    assert sorted(found) == ["gpu-0", "gpu-1"]
    assert not any("nodeset.slinky.slurm.net/pod-condemned" in pod["metadata"]["annotations"] for pod in found.values())
    slurm_site.kubectl("patch", "restapi/slurm", "--type=merge", "-p", json.dumps({"spec": {"replicas": 1}}))
    until(lambda: list(slurm_site.pods()) == ["gpu-1"], "the end of the idle one", 60)
    slurm_site.release(job, "gpu-1")
    slurm_site.completed(job)
    slurm_site.kubectl("scale", "nodeset/gpu", "--replicas=2")
    until(lambda: slurm_site.settled(2), "both back", 90)


def test_a_new_revision_comes_one_by_one_and_with_new_settings(slurm_site: Site) -> None:
    job = slurm_site.job("g-0")
    old = slurm_site.pods()["gpu-1"]["metadata"]["uid"]
    slurm_site.apply(node_set(2, extraConf="Weight=7", updateStrategy={"rollingUpdate": {"maxUnavailable": 1}}))
    fewest = 2

    def done() -> bool:
        nonlocal fewest
        ready = slurm_site.get("nodeset", "gpu")["status"].get("availableReplicas", 0)
        fewest = min(fewest, ready)
        revisions = {pod["metadata"]["labels"]["controller.kubernetes.io/hash"] for pod in slurm_site.pods().values()}
        return revisions == {slurm_site.get("nodeset", "gpu")["status"]["nodeSetHash"]} and slurm_site.settled(2)

    until(
        lambda: done() or slurm_site.pods().get("gpu-1", {}).get("metadata", {}).get("uid", old) != old, "the idle one"
    )
    assert slurm_site.job_state(job) == "RUNNING"
    slurm_site.release(job, "gpu-0")
    slurm_site.completed(job)
    until(done, "the update", 120)
    assert fewest == 1
    assert slurm_site.slurm("sinfo", "-h", "-N", "-p", "all", "-o", "%w").split() == ["7", "7"]


def test_the_operator_may_die_and_everything_goes_on(slurm_site: Site, operator: Operator) -> None:
    operator.stop()
    slurm_site.kubectl("delete", "pod", "slurm-controller-0", "--wait=false")
    until(lambda: slurm_site.slurm("scontrol", "ping", check=False).startswith("Slurmctld(primary)"), "slurmctld", 60)
    until(lambda: slurm_site.on("gpu-0", "srun", "-N2", "hostname", check=False), "a job without the operator", 60)
    before = {name: pod["metadata"]["uid"] for name, pod in slurm_site.pods().items()}
    operator.start()
    time.sleep(10)
    after = {name: pod["metadata"]["uid"] for name, pod in slurm_site.pods().items()}
    assert before == after


def test_deleting_the_set_waits_for_its_jobs(slurm_site: Site) -> None:
    until(lambda: slurm_site.settled(2), "rest", 60)
    job = slurm_site.job("g-0")
    slurm_site.kubectl("delete", "nodeset", "gpu", "--wait=false")
    until(lambda: "gpu-1" not in slurm_site.pods(), "the idle worker's end", 30)
    assert "gpu-0" in slurm_site.pods()
    slurm_site.release(job, "gpu-0")
    slurm_site.completed(job)
    until(lambda: not slurm_site.kubectl("get", "nodeset", "gpu", "--ignore-not-found"), "the set's end", 90)
