# SPDX-License-Identifier: Apache-2.0
"""The charts on an empty Kubernetes: a user's work over ssh, upgrades and removal, while jobs run."""

import json
import os
import secrets
import subprocess
import sys
import tarfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.operator.chart_site import (
    BURST,
    CPU,
    EXAMPLES,
    LOGIN,
    PASSWORD,
    USER,
    ChartSite,
    in_background,
    password_secret,
)
from tests.e2e.operator.elastic_jobs import run_jobs
from tests.e2e.operator.site import restore_nodes
from tests.support.command_line import slinky, slinky_output
from tests.support.shared_stage import SharedStage, lend
from tests.support.waiting import until

from slinky.api.names import metadata
from slinky.lab import bringup
from slinky.lab.bringup import LabOptions
from slinky.lab.demo.charts import OPERATOR_SPACE, RELEASE, SPACE
from slinky.lab.prepare.images import reference
from slinky.lab.progress import Progress

pytestmark = pytest.mark.lab

TOKEN = f"{RELEASE}-token-mine-jwt-slurm"


@contextmanager
def chart_site() -> Iterator[ChartSite]:
    """A lab with nothing in it but the operator, the database and the user's workstation."""
    options = LabOptions(name=f"charts-{secrets.token_hex(3)}", owner=os.getpid(), slurm="beside", gpus=0)
    lab = bringup.up(options, Progress())
    try:
        site = ChartSite(lab)
        site.install_operator()
        yield site
    finally:
        bringup.down(lab.name)


@pytest.fixture(scope="module")
def shared_chart_site() -> Iterator[SharedStage[ChartSite]]:
    shared = SharedStage(chart_site)
    yield shared
    shared.close()


@pytest.fixture
def operator_only(request: pytest.FixtureRequest, shared_chart_site: SharedStage[ChartSite]) -> Iterator[ChartSite]:
    """The site, with or without its cluster."""
    yield from lend(shared_chart_site, request.node)


@pytest.fixture
def site(operator_only: ChartSite) -> ChartSite:
    """The site with its cluster ready."""
    operator_only.ensure_cluster()
    return operator_only


def test_a_user_submits_over_ssh_and_accounting_has_the_job(site: ChartSite) -> None:
    assert site.ssh_output("getent", "-s", "sss", "passwd", USER).startswith(f"{USER}:")
    hosts = site.ssh_output("srun", "--chdir=/tmp", "-N2", "hostname").split()
    assert sorted(hosts) == ["cpu-0", "cpu-1"]
    job = site.ssh_output("sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "-N2", "--wrap=srun id -un")
    site.wait_accounted(job)
    assert site.ssh_output("sacct", "-nXP", "-j", job, "-o", "user,nnodes") == f"{USER}|2"


def test_the_exporter_sees_the_cluster_as_an_ordinary_user(site: ChartSite) -> None:
    path = f"/api/v1/namespaces/{SPACE}/services/{RELEASE}-exporter:metrics/proxy/metrics"

    def series() -> str:
        return site.kubectl("get", "--raw", path)

    until(lambda: 'partition="cpu",state="idle"} 2.0' in series(), "both workers in the metrics")
    job, pod = site.submit_job("-w", "cpu-0")
    until(lambda: 'slinky_slurm_jobs{cluster="slurm_slurm",partition="cpu",state="running"} 1.0' in series(), "its job")
    site.finish_job(job, pod)


def test_workers_let_in_users_with_a_job_there(site: ChartSite) -> None:
    host = f"cpu-0.slurm-workers-{RELEASE}"
    assert site.ssh("true", to=host, check=False).returncode != 0
    job, pod = site.submit_job("-w", "cpu-0")
    assert site.ssh_output("hostname", to=host) == "cpu-0"
    site.finish_job(job, pod)


def test_the_command_prints_the_output_of_a_native_job_and_the_log_of_a_pod(site: ChartSite) -> None:
    here = ("--kubeconfig", str(site.lab.kubeconfig), "-n", SPACE)
    job = site.ssh_output("sbatch", "--parsable", "--chdir=/tmp", "-w", "cpu-0", "--wrap=echo one; echo two; id -un")
    site.wait_accounted(job)
    assert slinky_output("logs", job, *here) == f"one\ntwo\n{USER}\n"
    assert slinky_output("logs", job, "--tail", "1", "-f", *here) == f"{USER}\n"
    assert slinky_output("logs", job, "-o", "name", *here) == f"cpu-0:/tmp/slurm-{job}.out\n"
    lines = slinky_output("logs", f"pod/{site.controller_pod}", "--container", "slurmctld", "--tail", "3", *here)
    assert len(lines.splitlines()) == 3
    site.kubectl("exec", site.worker_of("cpu-0"), "-c", "slurmd", "--", "rm", f"/tmp/slurm-{job}.out")
    gone = slinky("logs", job, *here)
    assert (gone.returncode, "cannot be read in the worker cpu-0" in gone.stderr) == (1, True), gone
    unknown = slinky("logs", "4000000", *here)
    assert (unknown.returncode, "slurmctld knows no job 4000000" in unknown.stderr) == (3, True), unknown


def test_the_command_opens_a_shell_in_the_login_pod(site: ChartSite) -> None:
    here = ("--kubeconfig", str(site.lab.kubeconfig), "-n", SPACE)
    assert slinky_output("shell", *here, input="sinfo -h -n cpu-0 -o %N\n").split() == ["cpu-0"]
    assert slinky_output("shell", "-u", USER, *here, "--", "id", "-un") == f"{USER}\n"
    assert slinky("shell", *here, "--", "sh", "-c", "echo no >&2; exit 7").returncode == 7
    other = slinky("shell", "-l", "nowhere", *here)
    assert (other.returncode, "there is no LoginSet nowhere" in other.stderr) == (3, True), other
    controlling, terminal = os.openpty()
    argv = [sys.executable, "-m", "slinky.cli", "shell", *here]
    process = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal)
    try:
        os.close(terminal)
        screen = os.read(controlling, 4096)  # the prompt
        os.write(controlling, b"tty; echo $((40 + 2))-$SHLVL; exit 5\n")
        with suppress(OSError):  # the terminal is gone when the process ends
            while part := os.read(controlling, 4096):
                screen += part
        process.wait()
    finally:
        process.kill()
    assert (process.returncode, b"/dev/pts/" in screen, b"42-" in screen) == (5, True, True), screen
    os.close(controlling)


def test_the_command_finds_no_error_and_names_the_versions_of_the_servers(site: ChartSite) -> None:
    here = ("--kubeconfig", str(site.lab.kubeconfig), "-n", SPACE)
    findings = json.loads(slinky_output("doctor", *here, "-o", "json"))
    assert [finding for finding in findings if finding["severity"] == "error"] == []
    versions = json.loads(slinky_output("version", *here, "-o", "json"))
    assert versions["slurm-operator"] == versions["slurm-operator-webhook"] == versions["client"]
    assert versions["kubernetes"].startswith("v1.")
    assert "skew" not in versions


def test_the_command_gathers_a_bundle_without_any_secret(site: ChartSite, tmp_path: Path) -> None:
    planted = f"planted-{secrets.token_hex(8)}"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "planted"}, "stringData": {"any": planted}}
    leak = f"the value {planted}; dbpassword={planted[:12]}x"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leak"}, "data": {"notes": leak}}
    site.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([secret, config]))
    path = tmp_path / "bundle.tar.gz"
    argv = ("gather", "--kubeconfig", str(site.lab.kubeconfig), "-n", SPACE, "-f", str(path), "-o", "json")
    summary = json.loads(slinky_output(*argv))
    site.kubectl("delete", "secret/planted", "configmap/leak")
    with tarfile.open(path) as tar:
        files = {entry.name.partition("/")[2]: read_entry(tar, entry) for entry in tar.getmembers()}
    # The kubelet may have removed the log of a container that was restarted.
    assert [problem for problem in summary["notRead"] if ".previous.log:" not in problem] == []
    space = f"kubernetes/{SPACE}"
    kinds = ("controllers", "accountings", "nodesets", "loginsets", "restapis", "tokens", "events", "pods")
    wanted = [f"{space}/{kind}.json" for kind in kinds] + ["doctor.txt", "versions.json", "summary.json"]
    wanted += [f"slurm/{name}.json" for name in ("config", "nodes", "jobs", "partitions", "diag")]
    wanted += [f"logs/{SPACE}/{site.controller_pod}/slurmctld.log"]
    assert set(wanted) <= set(files)
    values = [b64decode(value) for item in secrets_of(site) for value in item.get("data", {}).values()]
    everything = b"\n".join(files.values())
    assert b"[redacted]" in everything
    found = [value[:4] for value in [planted.encode(), *values] if len(value) > 8 and value in everything]
    assert found == []
    assert f"{planted[:12]}x".encode() not in everything


def read_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    opened = tar.extractfile(entry)
    assert opened is not None
    return opened.read()


def secrets_of(site: ChartSite) -> list[dict[str, Any]]:
    """Every Secret of the cluster's namespace."""
    items: list[dict[str, Any]] = json.loads(site.kubectl("get", "secrets", "-o", "json"))["items"]
    return items


def test_workers_are_found_by_their_short_names(site: ChartSite) -> None:
    assert site.ssh_output("getent", "hosts", "cpu-0").split()[1].startswith(f"cpu-0.slurm-workers-{RELEASE}.")


def test_a_reconfiguration_restarts_no_container(site: ChartSite) -> None:
    label = f"{metadata.APP_NAME} in (login, slurmd, slurmctld)"
    counts = ("get", "pods", "-l", label, "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
    before = site.kubectl(*counts)
    site.slurm("scontrol", "reconfigure")
    # slurmctld notifies all daemons, those of login hosts too; they restart themselves inside their containers.
    logs = ("logs", f"deploy/{LOGIN}", "-c", "login")
    until(lambda: "reconfigure requested" in site.kubectl(*logs), "the reconfiguration of sackd")
    assert len(site.ssh_output("srun", "--chdir=/tmp", "-N2", "hostname").split()) == 2
    assert site.kubectl(*counts) == before


def test_the_password_is_nowhere_but_in_secrets(site: ChartSite) -> None:
    text = site.kubectl("get", "cm,sts,deploy,pods,accountings,events", "-o", "yaml")
    assert PASSWORD not in text
    assert "$(secret)" not in text


def test_a_changed_password_reaches_slurmdbd(site: ChartSite) -> None:
    pod = f"{RELEASE}-accounting-0"
    before = site.uids("slurmdbd")[pod]
    password = f"another; one {secrets.token_hex(2)}"
    site.sql(f"set password = password('{password}')")
    site.password = password
    site.apply_all([password_secret(password)])
    until(lambda: site.uids("slurmdbd").get(pod, before) != before, "another slurmdbd")
    until(lambda: not site.ssh("sacct", "-nX", check=False).returncode, "an answer of slurmdbd")


def test_a_token_opens_the_rest_api_and_is_replaced_in_time(site: ChartSite) -> None:
    def token() -> str:
        return b64decode(site.get("secret", TOKEN)["data"]["SLURM_JWT"]).decode()

    first = token()
    url = f"http://{RELEASE}-restapi:6820/slurm/v0.0.44/nodes/"
    answer = json.loads(site.slurm("curl", "-s", "-H", f"X-SLURM-USER-TOKEN: {first}", url))
    assert {"cpu-0", "cpu-1"} <= {node["name"] for node in answer["nodes"]}
    until(lambda: token() != first, "another token")


def test_the_rest_api_serves_https_with_the_authority_of_its_config_map(site: ChartSite) -> None:
    authority = site.get("configmap", f"{RELEASE}-restapi-ca")["data"]["ca.crt"]
    token = b64decode(site.get("secret", TOKEN)["data"]["SLURM_JWT"]).decode()
    url = f"https://{RELEASE}-restapi:6820/slurm/v0.0.44/ping/"
    script = 'printf "%s" "$1" >/tmp/ca.crt; curl -sS --cacert /tmp/ca.crt -H "X-SLURM-USER-TOKEN: $2" "$3"'
    assert json.loads(site.slurm("bash", "-c", script, "bash", authority, token, url))["pings"]
    verdict = site.slurm("bash", "-c", f"curl -s {url} || echo $?")
    assert verdict.strip() == "60"  # the system's authorities do not prove this server


def test_helm_test_asks_every_part(site: ChartSite) -> None:
    assert site.charts.run_helm("test", "slurm-operator", space=OPERATOR_SPACE).count("Succeeded") == 2


def test_metrics_need_the_permission_to_read_them(site: ChartSite) -> None:
    url = f"https://slurm-operator.{OPERATOR_SPACE}:8080/metrics"
    for account in ("reader", "stranger"):
        site.kubectl("create", "serviceaccount", account)
    role = "--clusterrole=slurm-operator-metrics-reader"
    site.lab.kubectl("create", "clusterrolebinding", "reader", role, f"--serviceaccount={SPACE}:reader")
    assert site.fetch(url) == "401"
    assert site.fetch(url, "stranger") == "403"
    assert "slinky_operator_" in site.fetch(url, "reader")


def worker_uids(site: ChartSite) -> dict[str, str]:
    """The workers of the NodeSet with jobs; an idle worker of another one is replaced at once."""
    return {name: pod["metadata"]["uid"] for name, pod in site.workers().items()}


def test_an_upgrade_of_the_cluster_replaces_workers_after_their_jobs(site: ChartSite) -> None:
    image = "slurmd-next"
    for machine in site.lab.machines():
        if machine.name.startswith("node"):
            machine.run(["ctr", "-n", "k8s.io", "images", "tag", "--force", reference("slurmd"), reference(image)])
    jobs = [site.submit_job("-w", host) for host in ("cpu-0", "cpu-1")]
    before = worker_uids(site)
    site.cluster("upgrade", slurmd=image, restapi={"replicas": 2})
    until(lambda: "drng" in site.slurm("sinfo", "-h", "-N", "-p", "cpu", "-o", "%t"), "the first drain")
    assert worker_uids(site) == before
    for job, pod in jobs:
        assert site.job_state(job) == "RUNNING"
        site.finish_job(job, pod)

    def is_replaced() -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in site.workers().values()]
        return images == [reference(image)] * 2

    until(is_replaced, "workers with the new image")
    site.wait_ready({"restapi": RELEASE, "nodeset": CPU})


def test_workers_come_with_jobs_and_go_without(site: ChartSite) -> None:
    """The autoscaler of Kubernetes scales a NodeSet by our external metric, as the charts serve it."""
    site.kubectl("apply", "-f", str(EXAMPLES / "hpa.yaml"))
    until(lambda: not site.workers("burst"), "a NodeSet without workers")
    run_jobs(site, "burst", BURST)
    until(lambda: not site.workers("burst"), "a NodeSet without workers again")
    events = site.kubectl("get", "events", "--field-selector=involvedObject.kind=HorizontalPodAutoscaler")
    assert all(f"New size: {size};" in events for size in (0, 2))
    site.kubectl("delete", "hpa", "burst")


def test_a_killed_slurmctld_ends_no_job(site: ChartSite) -> None:
    job, pod = site.submit_job()
    # A reconfiguration saves the state; a kill loses what is younger than the last save.
    site.slurm("scontrol", "reconfigure")
    until(lambda: site.job_state(job) == "RUNNING", "the job after the reconfiguration")

    def restarts() -> int:
        statuses = site.pods("slurmctld")[site.controller_pod]["status"]["containerStatuses"]
        return sum(status["restartCount"] for status in statuses if status["name"] == "slurmctld" and status["ready"])

    before = restarts()
    site.slurm("pkill", "-9", "slurmctld", check=False)
    until(lambda: restarts() > before, "the restart of slurmctld")
    until(lambda: site.job_state(job) == "RUNNING", "the job")
    site.finish_job(job, pod)


def test_an_upgrade_or_the_absence_of_the_operator_ends_no_job(site: ChartSite) -> None:
    job, pod = site.submit_job()
    before = site.uids()
    site.operator("upgrade", logLevel="debug")
    site.wait_ready({"nodeset": CPU})
    assert site.uids() == before
    assert site.job_state(job) == "RUNNING"
    site.charts.uninstall("slurm-operator", OPERATOR_SPACE)
    assert len(site.ssh_output("srun", "--chdir=/tmp", "-N2", "--overlap", "hostname").split()) == 2
    assert site.job_state(job) == "RUNNING"
    site.finish_job(job, pod)
    site.operator("install")
    site.wait_ready({"nodeset": CPU})
    assert site.uids() == before


def test_removing_the_cluster_waits_for_its_job(site: ChartSite) -> None:
    job, pod = site.submit_job()
    with in_background(site.remove_cluster) as removal:
        until(lambda: list(site.workers()) == [pod], "deletion of the idle worker")
        assert site.job_state(job) == "RUNNING"
        assert not removal.done()
        site.release_job(job, pod)
    # slurmdbd is deleted after it has written the end of the job.
    table = f"{SPACE}_{RELEASE}_job_table"
    completed = "3"
    statement = f"select state, exit_code from slurm_acct_db.{table} where id_job={job}"  # noqa: S608 - no foreign text
    assert site.sql(statement).split() == [completed, "0"]
    daemons = ("get", "pods", "-l", f"{metadata.APP_NAME} in (slurmd, slurmctld, slurmdbd)")
    until(lambda: not site.kubectl(*daemons).strip(), "deletion of the last pod")


def test_workers_join_a_slurm_outside_of_kubernetes(operator_only: ChartSite) -> None:
    lab, example = operator_only.lab, EXAMPLES / "hybrid.yaml"
    # That Slurm has a tree of switches and runs a job only on hosts below one leaf.
    lab.kubectl("annotate", "node", "--all", f"{metadata.TOPOLOGY}=default:leaf1")
    operator_only.install_example("hybrid", example)
    operator_only.wait_ready({"controller": "outside", "restapi": "outside", "nodeset": "cloud"}, "hybrid")
    step = ("srun", "-p", "all", "-w", "cloud-[0-1]", "-N2", "--chdir=/tmp", "hostname")
    assert sorted(lab.slurm.exec(*step, user=USER).split()) == ["cloud-0", "cloud-1"]
    until(lambda: not lab.slurm.exec("squeue", "-h"), "the end of the job on both hosts")
    lab.kubectl("delete", "-n", "hybrid", "-f", str(example), "--timeout=280s")
    restore_nodes(lab)
