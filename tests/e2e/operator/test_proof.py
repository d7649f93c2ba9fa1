# SPDX-License-Identifier: Apache-2.0
"""The whole way: charts from nothing, a person over ssh, and work that survives everything done to the site.

One lab of its own, one site, tests in order: each leaves the site as the next one wants it.
"""

import json
import os
import secrets
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e.operator.proof import (
    CPU,
    EXAMPLES,
    LOGIN,
    NEW_PASSWORD,
    PASSWORD,
    USER,
    Proof,
    database,
    desk,
    scraper,
    strict,
)

from slinky.lab import bringup
from slinky.lab.bringup import LabOptions
from slinky.lab.demo.chart_site import OPERATOR_SPACE, RELEASE, SPACE
from slinky.lab.prepare.images import reference
from slinky.lab.progress import Progress

pytestmark = pytest.mark.lab

TOKEN = f"{RELEASE}-token-mine-jwt-slurm"
KINDS = {
    "controller": RELEASE,
    "accounting": RELEASE,
    "restapi": RELEASE,
    "nodeset": CPU,
    "loginset": LOGIN,
}


@pytest.fixture(scope="module")
def proof() -> Iterator[Proof]:
    """From nothing: an empty Kubernetes, then our charts."""
    options = LabOptions(name=f"proof-{secrets.token_hex(3)}", owner=os.getpid(), slurm="beside", gpus=0)
    lab = bringup.up(options, Progress())
    try:
        made = Proof(lab)
        made.site.load_slinky(Progress())
        made.apply([*strict(), *database(), *desk(made.private)])
        made.site.helm("install", "slurm-operator-crds", "slurm-operator-crds", OPERATOR_SPACE)
        made.operator("install")
        made.cluster("install")
        yield made
    finally:
        bringup.down(lab.name)


def test_every_kind_becomes_ready(proof: Proof) -> None:
    for kind, name in KINDS.items():
        proof.kubectl("wait", f"{kind}/{name}", "--for=condition=Ready", "--timeout=280s")
    proof.lab.kubectl("wait", "-n", "desk", "pod/desk", "--for=condition=Ready", "--timeout=240s")


def test_a_person_submits_over_ssh_and_accounting_knows(proof: Proof) -> None:
    proof.until(lambda: proof.says("id", "-un", check=False) == USER, "the login host")
    assert proof.says("getent", "-s", "sss", "passwd", USER).startswith(f"{USER}:")
    hosts = proof.says("srun", "--chdir=/tmp", "-N2", "hostname").split()
    assert sorted(hosts) == ["cpu-0", "cpu-1"]
    job = proof.says("sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "-N2", "--wrap=srun id -un")
    proof.ended_well(job)
    assert proof.says("sacct", "-nXP", "-j", job, "-o", "user,nnodes") == f"{USER}|2"


def test_workers_let_in_who_has_a_job_there(proof: Proof) -> None:
    service = f"slurm-workers-{RELEASE}"
    refused = proof.ssh("true", to=f"cpu-0.{service}", check=False)
    assert refused.returncode != 0
    job = proof.waiting_job("-w", "cpu-0")
    assert proof.says("hostname", to=f"cpu-0.{service}") == "cpu-0"
    proof.release(job)
    proof.ended_well(job)


def test_a_reconfiguration_restarts_no_container(proof: Proof) -> None:
    proof.slurm("scontrol", "reconfigure")
    # slurmctld tells everybody, login hosts included; they start themselves anew in place.
    proof.until(lambda: "reconfigure requested" in proof.kubectl("logs", f"deploy/{LOGIN}", "-c", "login"), "sackd")
    assert len(proof.says("srun", "--chdir=/tmp", "-N2", "hostname").split()) == 2
    label = "app.kubernetes.io/name in (login, slurmd, slurmctld)"
    counts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}"
    assert set(proof.kubectl("get", "pods", "-l", label, "-o", counts).split()) == {"0"}


def test_the_password_is_nowhere_but_in_secrets(proof: Proof) -> None:
    assert PASSWORD not in proof.kubectl("get", "cm,sts,deploy,pods,accountings,events", "-o", "yaml")


def test_a_changed_password_reaches_slurmdbd(proof: Proof) -> None:
    before = proof.kubectl("get", "pod", f"{RELEASE}-accounting-0", "-o", "jsonpath={.metadata.uid}")
    proof.sql(f"set password = password('{NEW_PASSWORD}')", PASSWORD)
    secret = [one for one in database() if one["kind"] == "Secret"]
    secret[0]["stringData"] = {"password": NEW_PASSWORD}
    proof.apply(secret)
    words = ("get", "pod", f"{RELEASE}-accounting-0", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
    proof.until(lambda: proof.kubectl(*words) not in ("", before), "a new slurmdbd")
    proof.until(lambda: "COMPLETED" in proof.says("sacct", "-nX", "-o", "state", check=False), "its answer")


def test_a_token_opens_the_rest_api_and_is_replaced_in_time(proof: Proof) -> None:
    def token() -> str:
        return b64decode(json.loads(proof.kubectl("get", "secret", TOKEN, "-o", "json"))["data"]["SLURM_JWT"]).decode()

    first = token()
    ask = ("curl", "-s", "-H", f"X-SLURM-USER-TOKEN: {first}", f"http://{RELEASE}-restapi:6820/slurm/v0.0.44/nodes/")
    hosts = {node["name"] for node in json.loads(proof.slurm(*ask))["nodes"]}
    assert {"cpu-0", "cpu-1"} <= hosts
    proof.until(lambda: token() != first, "a new token", 60)


def test_workers_are_found_by_their_short_names(proof: Proof) -> None:
    assert proof.says("getent", "hosts", "cpu-0").split()[1].startswith(f"cpu-0.slurm-workers-{RELEASE}.")


def test_helm_test_asks_every_part(proof: Proof) -> None:
    assert proof.site.run_helm("test", "slurm-operator", space=OPERATOR_SPACE).count("Succeeded") == 2


def test_metrics_are_for_those_who_may_read_them(proof: Proof) -> None:
    proof.apply(scraper())
    proof.lab.kubectl("wait", "-n", "desk", "pod/scraper", "--for=condition=Ready", "--timeout=240s")
    url = f"https://slurm-operator.{OPERATOR_SPACE}:8080/metrics"
    assert proof.fetched(url, token=False) == "401"
    assert proof.fetched(url) == "403"
    proof.lab.kubectl(
        "create", "clusterrolebinding", "scraper",
        "--clusterrole=slurm-operator-metrics-reader", "--serviceaccount=desk:scraper",
    )  # fmt: skip
    # A refusal is remembered for a minute by the replica that gave it.
    text = proof.until(lambda: (found := proof.fetched(url)) != "403" and found, "metrics", 150)
    assert "slinky_operator_" in text


def test_scaling_out_and_in_loses_nothing(proof: Proof) -> None:
    proof.kubectl("scale", "nodeset", CPU, "--replicas=3")
    proof.until(lambda: proof.idle("cpu-2"), "a third worker")
    job = proof.waiting_job("-w", "cpu-2")
    uid = proof.workers()[f"{CPU}-2"]["metadata"]["uid"]
    proof.kubectl("scale", "nodeset", CPU, "--replicas=1")
    proof.until(lambda: list(proof.workers()) == [f"{CPU}-2"], "the idle ones to go")
    assert proof.workers()[f"{CPU}-2"]["metadata"]["uid"] == uid
    assert proof.state(job) == "RUNNING"
    proof.release(job)
    proof.ended_well(job)
    proof.kubectl("scale", "nodeset", CPU, "--replicas=2")
    proof.kubectl("wait", f"nodeset/{CPU}", "--for=condition=Ready", "--timeout=280s")


def test_a_rolling_image_update_loses_nothing(proof: Proof) -> None:
    new = "slurmd-next"
    for machine in proof.lab.machines():
        if machine.name.startswith("node"):
            machine.run(["ctr", "-n", "k8s.io", "images", "tag", "--force", reference("slurmd"), reference(new)])
    before = {name: pod["metadata"]["uid"] for name, pod in proof.workers().items()}
    jobs = [proof.waiting_job("-w", name.removeprefix(f"{RELEASE}-worker-")) for name in before]
    proof.cluster("upgrade", slurmd=new)
    proof.until(lambda: "drng" in proof.slurm("sinfo", "-h", "-N", "-p", "cpu", "-o", "%t"), "the first drain")
    assert {name: pod["metadata"]["uid"] for name, pod in proof.workers().items()} == before
    for job in jobs:
        assert proof.state(job) == "RUNNING"
        proof.release(job)
        proof.ended_well(job)

    def replaced() -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in proof.workers().values()]
        return images == [reference(new)] * 2

    proof.until(replaced, "new workers")
    proof.kubectl("wait", f"nodeset/{CPU}", "--for=condition=Ready", "--timeout=280s")


def test_a_drained_node_lets_its_job_end_and_comes_back(proof: Proof) -> None:
    job = proof.waiting_job()
    (host,) = proof.where(job)
    pod = proof.until(lambda: proof.protected(host), "the protection of a busy worker")
    node = pod["spec"]["nodeName"]
    proof.lab.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason=fan; rm -rf $(x)")
    only = "--pod-selector=app.kubernetes.io/name=slurmd"
    words = ("drain", node, only, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s")
    with ThreadPoolExecutor() as pool:
        drain = pool.submit(proof.lab.kubectl, *words)
        wanted = f"{host} drng slurm-operator: fan; rm -rf $(x)"
        proof.until(lambda: wanted in proof.slurm("sinfo", "-h", "-N", "-o", "%N %t %E"), "the drain in Slurm")
        assert not drain.done()
        assert proof.workers()[f"{RELEASE}-worker-{host}"]["metadata"]["uid"] == pod["metadata"]["uid"]
        proof.release(job)
        proof.ended_well(job)
        drain.result()
    proof.lab.kubectl("uncordon", node)
    proof.lab.kubectl("annotate", "node", node, "nodeset.slinky.slurm.net/node-cordon-reason-")
    proof.until(lambda: proof.idle(host), "its return")


def test_workers_come_with_jobs_and_go_without(proof: Proof) -> None:
    """The autoscaler of Kubernetes, asking a real adapter that asks the real Slurm."""
    proof.kubectl("create", "configmap", "slurm-metrics", f"--from-file={EXAMPLES}/autoscaling/adapter.py")
    for name in ("adapter", "hpa"):
        proof.lab.kubectl("apply", "-f", str(EXAMPLES / f"autoscaling/{name}.yaml"))
    proof.until(lambda: not proof.workers("burst"), "an empty set", 180)
    job = proof.says("sbatch", "--parsable", "-p", "burst", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true")
    proof.ended_well(job)
    proof.until(lambda: not proof.workers("burst"), "an empty set again", 180)
    said = proof.kubectl("get", "events", "--field-selector=involvedObject.kind=HorizontalPodAutoscaler")
    assert "SuccessfulRescale" in said
    proof.kubectl("delete", "hpa", "burst")
    proof.lab.kubectl("delete", "-f", str(EXAMPLES / "autoscaling/adapter.yaml"), "--wait=false")


@pytest.fixture(scope="module")
def witness(proof: Proof) -> str:
    """A job that runs while things are done to the site."""
    return proof.waiting_job()


def test_an_upgrade_of_the_cluster_hurts_no_job(proof: Proof, witness: str) -> None:
    proof.cluster("upgrade", slurmd="slurmd-next", restapi={"replicas": 2})
    proof.kubectl("wait", f"restapi/{RELEASE}", "--for=condition=Ready", "--timeout=280s")
    assert proof.state(witness) == "RUNNING"


def test_an_upgrade_of_the_operator_hurts_no_job(proof: Proof, witness: str) -> None:
    before = proof.workers()
    proof.operator("upgrade", logLevel="debug")
    proof.kubectl("wait", f"nodeset/{CPU}", "--for=condition=Ready", "--timeout=280s")
    assert {pod["metadata"]["uid"] for pod in before.values()} == {
        pod["metadata"]["uid"] for pod in proof.workers().values()
    }
    assert proof.state(witness) == "RUNNING"


def test_a_killed_slurmctld_hurts_no_job(proof: Proof, witness: str) -> None:
    proof.slurm("pkill", "-9", "slurmctld", check=False)
    pod = f"{RELEASE}-controller-0"

    def restarted() -> bool:
        found = json.loads(proof.kubectl("get", "pod", pod, "-o", "json"))["status"]["containerStatuses"]
        return any(one["name"] == "slurmctld" and one["restartCount"] and one["ready"] for one in found)

    proof.until(restarted, "slurmctld")
    proof.until(lambda: proof.state(witness) == "RUNNING", "the job in its memory")


def test_without_the_operator_work_goes_on(proof: Proof, witness: str) -> None:
    proof.site.uninstall("slurm-operator", OPERATOR_SPACE)
    assert len(proof.says("srun", "--chdir=/tmp", "-N2", "--overlap", "hostname").split()) == 2
    assert proof.state(witness) == "RUNNING"
    proof.release(witness)
    proof.ended_well(witness)
    proof.operator("install")
    proof.kubectl("wait", f"nodeset/{CPU}", "--for=condition=Ready", "--timeout=280s")


def test_removing_the_cluster_lets_its_job_end(proof: Proof) -> None:
    job = proof.waiting_job()
    (host,) = proof.where(job)
    with ThreadPoolExecutor() as pool:
        gone = pool.submit(proof.site.uninstall, RELEASE, SPACE)
        proof.until(lambda: list(proof.workers()) == [f"{RELEASE}-worker-{host}"], "the idle worker's end")
        assert proof.state(job) == "RUNNING"
        proof.on(host, "touch", f"/tmp/go-{job}")
        gone.result()
    # slurmdbd is gone too, but not before it had written how the job ended.
    table = f"select state, exit_code from slurm_acct_db.{SPACE}_{RELEASE}_job_table where id_job={job}"  # noqa: S608 - ours
    complete = "3"
    assert proof.sql(table, NEW_PASSWORD).split() == [complete, "0"]
    left = ("get", "pods", "-l", "app.kubernetes.io/name in (slurmd, slurmctld, slurmdbd)")
    proof.until(lambda: not proof.kubectl(*left).strip(), "the last pod's end")


def test_the_same_as_plain_manifests(proof: Proof) -> None:
    proof.plain("plain", EXAMPLES / "whole.yaml")
    for kind, name in {**dict.fromkeys(("accounting", "controller", "restapi"), "slurm"), "nodeset": "cpu"}.items():
        proof.lab.kubectl("wait", "-n", "plain", f"{kind}/{name}", "--for=condition=Ready", "--timeout=280s")
    proof.lab.kubectl("wait", "-n", "plain", "loginset/login", "--for=condition=Ready", "--timeout=240s")
    login = ("exec", "-n", "plain", "deploy/login", "-c", "login", "--")
    hosts = proof.lab.kubectl(*login, "srun", "--chdir=/tmp", "-N2", "hostname").split()
    assert sorted(hosts) == ["cpu-0", "cpu-1"]
    proof.until(lambda: "COMPLETED" in proof.lab.kubectl(*login, "sacct", "-nXP", "-o", "state"), "its record")
    proof.lab.kubectl("delete", "-n", "plain", "-f", str(EXAMPLES / "whole.yaml"), "--timeout=280s")


def test_workers_join_a_slurm_outside_of_kubernetes(proof: Proof) -> None:
    outside = proof.lab.slurm
    # That Slurm has a tree of switches, and runs work across hosts of a leaf only.
    proof.lab.kubectl("annotate", "node", "--all", "topology.slinky.slurm.net/spec=default:leaf1")
    proof.plain("hybrid", EXAMPLES / "hybrid.yaml")
    for kind in ("controller/outside", "restapi/outside", "nodeset/cloud"):
        proof.lab.kubectl("wait", "-n", "hybrid", kind, "--for=condition=Ready", "--timeout=280s")
    ran = outside.exec("srun", "-p", "all", "-w", "cloud-[0-1]", "-N2", "--chdir=/tmp", "hostname", user=USER)
    assert sorted(ran.split()) == ["cloud-0", "cloud-1"]
    proof.until(lambda: not outside.exec("squeue", "-h"), "the job's end on both hosts")
    proof.lab.kubectl("delete", "-n", "hybrid", "-f", str(EXAMPLES / "hybrid.yaml"), "--timeout=280s")
