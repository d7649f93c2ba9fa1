# SPDX-License-Identifier: Apache-2.0
"""A lab tolerates faults, ends with its owner, and leaves nothing behind on the machine.

These tests compare mounts, links and cgroups of the whole machine (`tests/support/lab_traces.py`).
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.lab_traces import links, machine_wide, traces, wait_clean
from tests.support.shared_stage import SharedStage, lend
from tests.support.waiting import until

from slinky.lab import bringup, lab_state, paths
from slinky.lab.bringup import LabOptions
from slinky.lab.errors import LabError
from slinky.lab.kubernetes import addons
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress

pytestmark = pytest.mark.fault
SLINKY = [sys.executable, "-m", "slinky.cli"]


#: Opens the page of the demo as its last lines say.
OPEN_PAGE = """
kubectl port-forward -n slurm service/slurm-exporter 8082 > /dev/null &
trap "kill $!" EXIT
token=$(kubectl create token -n slurm default)
curl -sS --fail --retry 20 --retry-connrefused -H "Authorization: Bearer $token" http://127.0.0.1:8082/queue
"""


def slinky(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SLINKY, *argv], capture_output=True, text=True, check=False, env={**os.environ, **env})


@contextmanager
def victim_lab() -> Iterator[Lab]:
    try:
        yield bringup.up(LabOptions(name="victim", nodes=2, owner=os.getpid()), Progress())
    finally:
        bringup.down("victim")


@pytest.fixture(scope="module")
def shared_victim() -> Iterator[SharedStage[Lab]]:
    shared = SharedStage(victim_lab)
    yield shared
    shared.close()


@pytest.fixture
def victim(request: pytest.FixtureRequest, shared_victim: SharedStage[Lab]) -> Iterator[Lab]:
    """A lab that tests may damage."""
    yield from lend(shared_victim, request.node)


def wait_removed(name: str) -> None:
    """Wait until nothing on the machine belongs to a lab of that name."""

    def is_removed() -> bool:
        assert traces(name) == []
        return True

    until(is_removed, f"removal of lab {name}")


def test_a_second_lab_of_the_same_name_is_refused_with_the_next_step(victim: Lab) -> None:
    done = slinky("lab", "up", "--name", victim.name, "--nodes", "1")
    assert done.returncode == 1
    assert "lab victim already exists (up, 2 nodes)" in done.stderr
    assert "slinky lab status --name victim" in done.stderr


def make_script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_this_machine_can_run_a_lab() -> None:
    done = slinky("lab", "check", "-o", "json")
    assert done.returncode == 0
    assert {row["verdict"] for row in json.loads(done.stdout)} <= {"ok", "slow"}
    poor = slinky("lab", "check", SLINKY_STATE="/proc")  # a file system without free space
    assert poor.returncode == 1
    assert "SLINKY_STATE" in poor.stdout


def test_the_command_shows_the_lab_to_people_and_programs(victim: Lab, tmp_path: Path) -> None:
    status = json.loads(slinky("lab", "status", "--name", victim.name, "-o", "json").stdout)
    assert status["healthy"]
    assert status["kubernetes"]["nodes"] == {"node1": True, "node2": True}
    assert "kubelet" in slinky("lab", "status", "--name", victim.name).stdout
    assert victim.name in slinky("lab", "list").stdout
    assert "node1" in slinky("lab", "exec", "--name", victim.name, "control", "kubectl", "get", "nodes").stdout
    assert slinky("lab", "exec", "--name", victim.name, "node1", "sh", "-c", "exit 7").returncode == 7
    script = "pwd; helm version --short; kubectl config view"
    here = slinky("lab", "exec", "--name", victim.name, "control", "sh", "-c", script)
    assert here.stdout.startswith(f"{Path.cwd()}\nv")
    assert str(victim.plane.url) in here.stdout
    program = make_script(tmp_path / "shell", "helm version --short && kubectl get nodes -o name && exit 5")
    shell = slinky("lab", "shell", "--name", victim.name, SHELL=str(program))
    assert shell.returncode == 5
    assert "node/node2" in shell.stdout
    assert "kubelet" in slinky("lab", "logs", "--name", victim.name, "node1").stdout.split()
    assert slinky("lab", "logs", "--name", victim.name, "node1", "nothing").returncode == 1
    assert "certificate-authority-data" in slinky("lab", "kubeconfig", "--name", victim.name).stdout


def test_hollow_nodes_are_ready_and_run_pods(victim: Lab) -> None:
    addons.add_hollow_nodes(victim, 20)
    spec = {"nodeName": "hollow-00007", "containers": [{"name": "main", "image": "any"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hollow"}, "spec": spec}
    victim.kubectl("create", "-f", "-", input=json.dumps(manifest))
    victim.kubectl("wait", "pod/hollow", "--for=condition=Ready", "--timeout=240s")
    victim.kubectl("delete", "pod/hollow", "--timeout=240s")
    victim.kubectl("delete", "nodes", "-l", "type=hollow")


def test_a_crashed_and_a_disconnected_node_become_unready_and_ready_again(victim: Lab) -> None:
    victim.crash_node("node1")
    victim.cut_node("node2")
    until(lambda: not any(victim.nodes().values()), "two nodes that are not ready")
    assert victim.node_machine("node2").running("kubelet"), "a disconnected node runs on"
    victim.start_node("node1")
    victim.heal_node("node2")
    victim.wait_ready(["node1", "node2"])


def test_a_killed_up_leaves_nothing_behind(victim: Lab) -> None:
    up = subprocess.Popen([*SLINKY, "lab", "up", "--name", "orphan", "--nodes", "1"], stderr=subprocess.DEVNULL)
    until((paths.labs() / "orphan" / "network").exists, "a lab that is partly created")
    up.kill()
    up.wait()
    wait_removed("orphan")
    assert all(victim.nodes().values())


def test_a_lab_has_its_own_network_and_ends_with_its_owner(victim: Lab) -> None:
    before = machine_wide()
    script = """\
import os, time
from slinky.lab.bringup import LabOptions, up
from slinky.lab.progress import Progress
up(LabOptions(name="orphan", nodes=1, owner=os.getpid()), Progress(quiet=True))
print("up", flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout as output:
        assert output.readline() == "up\n"
        orphan = Lab.find("orphan")
        assert orphan.network.prefix != victim.network.prefix
        assert (set(orphan.nodes()), set(victim.nodes())) == ({"node1"}, {"node1", "node2"})
        assert traces("orphan") != []
        owner.kill()
        owner.wait()
    wait_removed("orphan")
    wait_clean("orphan", before)
    assert lab_state.load("orphan") is None


def test_a_lab_whose_janitor_was_killed_is_reported_and_removed_by_down(
    victim: Lab, shared_victim: SharedStage[Lab]
) -> None:
    os.kill(victim.state.janitor, signal.SIGKILL)
    until(lambda: not victim.control.alive(), "the end of the machines")
    with pytest.raises(LabError, match="lab victim has crashed"):
        Lab.find(victim.name)
    assert slinky("lab", "down", "--name", victim.name).stdout == "lab victim is removed\n"
    assert traces(victim.name) == []
    assert victim.network.link not in links()
    shared_victim.close()


def test_down_of_a_lab_that_does_not_exist_succeeds() -> None:
    done = slinky("lab", "down", "--name", "absent")
    assert (done.returncode, done.stdout) == (0, "there is no lab named absent; nothing to do\n")


def test_the_demo_runs_real_work_and_leaves_no_trace() -> None:
    before = machine_wide()
    done = slinky("demo", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[dict[str, str]]] = {}
    shown = json.loads(done.stdout)
    numbers = [row["WORKERS"] for row in shown["autoscaler"]]
    # Two workers become idle at two times, so the last step may be two.
    assert numbers[numbers.index("0 -> 2") :] in (["0 -> 2", "2 -> 0"], ["0 -> 2", "2 -> 1", "1 -> 0"])
    assert re.search(r"analysis +slurm +PENDING .* \(Resources\) +in \d+ min", shown["queue"])
    assert re.search(r"Job \d+ \(analysis\) of slurm is pending\..* Expected start: in \d+ min", shown["explain"])

    def page_shows_forecast() -> bool:
        page = slinky("lab", "exec", "--name", "demo", "control", "bash", "-c", OPEN_PAGE).stdout
        return bool(re.search(r"analysis.*in \d+ min", page, re.DOTALL))

    until(page_shows_forecast, "the job on the page with its expected start", 90)
    for row in shown["jobs"]:
        rows.setdefault(row["WORKLOAD"], []).append(row)
    states = {workload: [row["STATE"] for row in jobs] for workload, jobs in rows.items()}
    assert states == {
        "Job gpu": ["COMPLETED"],
        "PodGroup pair": ["COMPLETED"],
        "JobSet sweep": ["COMPLETED", "COMPLETED"],
        "sbatch beside pods": ["COMPLETED"],
        "sbatch on whole nodes": ["COMPLETED"],
        "LeaderWorkerSet serving": ["RUNNING"],
    }
    (gang,), (whole,), (beside,) = (
        rows[work] for work in ("LeaderWorkerSet serving", "sbatch on whole nodes", "sbatch beside pods")
    )
    pods = [row for work in ("Job gpu", "PodGroup pair", "JobSet sweep") for row in rows[work]]
    assert "Resources" in whole["WAITED FOR"]
    assert gang["WAITED FOR"] != "-"
    assert gang["CORES"] == whole["CORES"] == "node[1-3]:0-1"
    assert whole["STARTED"] >= max(row["ENDED"] for row in (*pods, beside))
    assert gang["STARTED"] >= whole["ENDED"]
    assert gang["OUTPUT"] == "worker 0 of 3; worker 1 of 3; worker 2 of 3"
    assert rows["Job gpu"][0]["OUTPUT"].startswith("gpu-")
    assert beside["OUTPUT"].startswith("hello from node")
    assert slinky("lab", "down", "--name", "demo").returncode == 0
    assert traces("demo") == []
    wait_clean("demo", before)
