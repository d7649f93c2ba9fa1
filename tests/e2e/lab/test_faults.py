# SPDX-License-Identifier: Apache-2.0
"""A lab can be broken on purpose, dies with its owner, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slinky.lab import bringup, lab_state, paths
from slinky.lab.bringup import LabOptions
from slinky.lab.errors import LabError
from slinky.lab.kubernetes import addons
from slinky.lab.lab import Lab
from slinky.lab.machine import cgroups
from slinky.lab.machine.machine import until
from slinky.lab.progress import Progress

pytestmark = pytest.mark.fault
SLINKY = [sys.executable, "-m", "slinky.cli"]


def slinky(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SLINKY, *argv], capture_output=True, text=True, check=False)


def traces(name: str) -> list[str]:
    """Everything on this machine that belongs to a lab of that name."""
    folder = str(paths.labs() / name)
    found = [str(top / cgroups.branch(name)) for top in cgroups.hierarchies() if (top / cgroups.branch(name)).exists()]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if f"{folder}/" in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/" in command or f"{folder} " in command:
            found.append(f"{process.name}: {command}")
    return [*found, *([folder] if Path(folder).exists() else [])]


def links() -> set[str]:
    shown = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifname"] for link in json.loads(shown)}


def machine_wide() -> set[str]:
    """What a lab could leave anywhere: mounts, links, named network namespaces, cgroups."""
    mounts = set(Path("/proc/self/mounts").read_text().splitlines())
    named = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    groups = {str(folder) for top in cgroups.hierarchies() for folder in top.iterdir() if folder.is_dir()}
    return mounts | links() | set(named) | groups


@pytest.fixture(scope="module")
def victim() -> Iterator[Lab]:
    lab = bringup.up(LabOptions(name="victim", nodes=1, owner=os.getpid()), Progress())
    yield lab
    bringup.down("victim")


def test_two_labs_live_side_by_side(lab: Lab, victim: Lab) -> None:
    assert lab.network.prefix != victim.network.prefix
    assert set(lab.nodes()) == {"node1", "node2"}
    assert set(victim.nodes()) == {"node1"}


def test_a_second_lab_of_the_same_name_is_refused_with_the_way_out(victim: Lab) -> None:
    done = slinky("lab", "up", "--name", victim.name, "--nodes", "1")
    assert done.returncode == 1
    assert "lab victim already exists (up, 1 nodes)" in done.stderr
    assert "slinky lab status --name victim" in done.stderr


def test_the_command_shows_the_lab_to_people_and_programs(victim: Lab) -> None:
    said = json.loads(slinky("lab", "status", "--name", victim.name, "-o", "json").stdout)
    assert said["healthy"]
    assert said["kubernetes"]["nodes"] == {"node1": True}
    assert "kubelet" in slinky("lab", "status", "--name", victim.name).stdout
    assert victim.name in slinky("lab", "list").stdout
    assert "node1" in slinky("lab", "exec", "--name", victim.name, "control", "kubectl", "get", "nodes").stdout
    assert slinky("lab", "exec", "--name", victim.name, "node1", "sh", "-c", "exit 7").returncode == 7
    assert "kubelet" in slinky("lab", "logs", "--name", victim.name, "node1").stdout.split()
    assert slinky("lab", "logs", "--name", victim.name, "node1", "nothing").returncode == 1
    assert "certificate-authority-data" in slinky("lab", "kubeconfig", "--name", victim.name).stdout


def test_hollow_nodes_are_ready_and_play_the_life_of_their_pods(victim: Lab) -> None:
    addons.add_hollow_nodes(victim, 20)
    spec = {"nodeName": "hollow-00007", "containers": [{"name": "main", "image": "any"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shade"}, "spec": spec}
    victim.kubectl("create", "-f", "-", input=json.dumps(manifest))
    victim.kubectl("wait", "pod/shade", "--for=condition=Ready", "--timeout=240s")
    victim.kubectl("delete", "pod/shade", "--timeout=240s")
    victim.kubectl("delete", "nodes", "-l", "type=hollow")


def test_a_crashed_node_is_noticed_and_comes_back(victim: Lab) -> None:
    victim.crash_node("node1")
    until(lambda: not victim.nodes()["node1"], "the crash to be noticed", 60)
    victim.start_node("node1")
    victim.wait_ready(["node1"])


def test_a_node_that_is_cut_off_is_noticed_and_lives_on(victim: Lab) -> None:
    victim.cut_node("node1")
    until(lambda: not victim.nodes()["node1"], "the cut to be noticed", 60)
    assert victim.node_machine("node1").running("kubelet")
    victim.heal_node("node1")
    victim.wait_ready(["node1"])


def test_a_lab_whose_janitor_was_killed_is_dead_and_is_cleared_by_down(victim: Lab) -> None:
    os.kill(victim.facts.janitor, signal.SIGKILL)
    until(lambda: not victim.control.alive(), "the machines to end", 30)
    with pytest.raises(LabError, match="lab victim has crashed"):
        Lab.find(victim.name)
    assert slinky("lab", "down", "--name", victim.name).stdout == "lab victim is removed\n"
    assert traces(victim.name) == []
    assert victim.network.link not in links()


def test_a_killed_up_and_then_a_killed_owner_leave_nothing_behind() -> None:
    before = links()
    started = subprocess.Popen([*SLINKY, "lab", "up", "--name", "orphan", "--nodes", "1"], stderr=subprocess.DEVNULL)
    half_made = paths.labs() / "orphan" / "network"
    until(half_made.exists, "the lab to be half made", 60)
    started.kill()
    started.wait()
    until(lambda: traces("orphan") == [], "a half made lab to be cleared", 60, lambda: "\n".join(traces("orphan")))

    script = "import os, time; from slinky.lab.bringup import *; from slinky.lab.progress import Progress\n"
    script += "up(Options(name='orphan', nodes=1, owner=os.getpid()), Progress(quiet=True)); print('up', flush=True)\n"
    owner = subprocess.Popen([sys.executable, "-c", script + "time.sleep(600)"], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout as said:
        assert said.readline() == "up\n"
        assert traces("orphan") != []
        owner.kill()
        owner.wait()
    until(lambda: traces("orphan") == [], "the lab to die with its owner", 60, lambda: "\n".join(traces("orphan")))
    until(lambda: not links() - before, "its links to be gone", 30)
    assert lab_state.load("orphan") is None


def test_down_of_nothing_says_so_and_succeeds() -> None:
    done = slinky("lab", "down", "--name", "nobody")
    assert (done.returncode, done.stdout) == (0, "there is no lab named nobody; nothing to do\n")


def test_the_demo_runs_real_work_and_goes_without_a_trace() -> None:
    before = machine_wide()
    done = slinky("demo", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[dict[str, str]]] = {}
    for row in json.loads(done.stdout):
        rows.setdefault(row["WORKLOAD"], []).append(row)
    states = {work: [row["STATE"] for row in found] for work, found in rows.items()}
    assert states == {
        "Job gpu": ["COMPLETED"],
        "PodGroup pair": ["COMPLETED"],
        "JobSet sweep": ["COMPLETED", "COMPLETED"],
        "LeaderWorkerSet serving": ["RUNNING"],
        "sbatch": ["COMPLETED"],
    }
    (gang,), (batch,), (gpu,) = rows["LeaderWorkerSet serving"], rows["sbatch"], rows["Job gpu"]
    assert "Resources" in gang["WAITED FOR"]
    assert gang["NODES"] == "node[1-3]"
    assert gang["OUTPUT"] == "worker 0 of 3; worker 1 of 3; worker 2 of 3"
    assert gang["STARTED"] >= max(row["ENDED"] for work in ("Job gpu", "PodGroup pair") for row in rows[work])
    assert rows["PodGroup pair"][0]["NODES"].startswith("node[")
    assert gpu["OUTPUT"].startswith("gpu-")
    assert batch["OUTPUT"] == f"hello from job {batch['JOB']}"
    assert slinky("lab", "down", "--name", "demo").returncode == 0
    assert traces("demo") == []
    until(lambda: not machine_wide() - before, "every trace to be gone", 30, lambda: str(machine_wide() - before))
