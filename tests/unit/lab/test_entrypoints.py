# SPDX-License-Identifier: Apache-2.0
"""What a daemon is started with, and that no shell reads it on the way."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.waiting import until

IMAGES = Path(__file__).parents[3] / "images"
SHOW = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'
MACHINE = '#!/bin/sh\n[ "$1" = -C ] && { echo "NodeName=x CPUs=16 ThreadsPerCore=2 RealMemory=8000"; exit; }\n'
HOSTILE = "Comment=$(touch hurt);`touch hurt`*"


@pytest.fixture
def started(tmp_path: Path) -> "Start":
    return Start(tmp_path)


class Start:
    """Runs an entrypoint where the daemon and our own commands are programs that only show their arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("slinky-set-slurm-uid", "slinky-takeover"):
            self._program(name, "#!/bin/sh\n")

    def __call__(self, image: str, daemon: str, *argv: str, **environment: str) -> list[str]:
        self._program(daemon, MACHINE + SHOW)
        script = (IMAGES / image / "entrypoint").read_text().replace(f"/usr/sbin/{daemon}", f"{self.folder}/{daemon}")
        self._program("entrypoint", script)
        path = f"{self.folder}:{os.environ['PATH']}"
        ran = subprocess.run(
            [self.folder / "entrypoint", *argv],
            env={"PATH": path, **environment}, capture_output=True, text=True, check=True, cwd=self.folder,
        )  # fmt: skip
        assert not (self.folder / "hurt").exists()
        return ran.stdout.splitlines()

    def _program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)


def test_slurmd_is_told_what_the_pod_may_use(started: Start) -> None:
    conf = f"'Features=gpu {HOSTILE}'"
    found = started(
        "slurmd", "slurmd", "-Z", "--conf", conf, "--conf-server", "ctl:6817",
        POD_CPUS="12", POD_MEMORY="6000", SLINKY_TOPOLOGY="tree:a", SLURMD_OPTIONS="-v  -N *",
    )  # fmt: skip
    full = f"Features=gpu {HOSTILE} CoreSpecCount=2 MemSpecLimit=2128 Topology=tree:a"
    assert found == ["-D", "-Z", "--conf-server", "ctl:6817", "-v", "-N", "*", "--conf", full]


@pytest.mark.parametrize(
    ("limit", "own", "withheld"),
    [("6000", "", 2128), ("6000", "300", 2300), ("6000", "0", 2000), ("400", "", 7700), ("9000", "", 128)],
)
def test_slurmd_keeps_memory_of_its_own(started: Start, limit: str, own: str, withheld: int) -> None:
    environment = {"POD_MEMORY": limit} | ({"SLURMD_MEMORY": own} if own else {})
    assert started("slurmd", "slurmd", **environment) == ["-D", "--conf", f"MemSpecLimit={withheld}"]


def test_a_program_that_ends_is_started_again_until_it_is_told_to_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"echo start >>{log}; [ $(wc -l <{log}) -lt 3 ] || exec sleep 600"
    keeper = subprocess.Popen(
        [IMAGES / "login-base/keep-running", "sh", "-c", script], stderr=subprocess.PIPE, text=True
    )
    until(lambda: log.exists() and log.read_text().count("start") == 3, "a third start")
    keeper.terminate()
    _, complaints = keeper.communicate(timeout=60)
    assert keeper.returncode == 0
    assert complaints.count("sh has ended with 0 and is started again") == 2


@pytest.mark.parametrize("keep", [True, False])
def test_an_sshd_that_ends_does_not_end_slurmd_if_it_is_kept(tmp_path: Path, keep: bool) -> None:
    starts = tmp_path / "starts"
    programs = {
        "sshd": f"#!/bin/sh\necho start >>{starts}\n",
        "ssh-keygen": "#!/bin/sh\n",
        "mkdir": "#!/bin/sh\n",
        "slinky-run-all": (IMAGES / "daemon/run-all").read_text(),
        "slinky-keep-running": (IMAGES / "login-base/keep-running").read_text(),
        "with-sshd": (IMAGES / "login-base/with-sshd").read_text().replace("/usr/sbin/sshd", f"{tmp_path}/sshd"),
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    argv = [str(tmp_path / "with-sshd"), *(["--keep"] if keep else []), "sleep", "600"]
    container = subprocess.Popen(argv, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, stderr=subprocess.DEVNULL)
    try:
        if keep:
            until(lambda: starts.exists() and starts.read_text().count("start") == 3, "a third sshd")
            assert container.poll() is None
        else:
            until(lambda: container.poll() is not None, "the end of the container")
    finally:
        container.terminate()
        container.wait(60)


def test_an_empty_topology_is_left_out(started: Start) -> None:
    assert started("slurmd", "slurmd", "--conf", "'Features=gpu'") == ["-D", "--conf", "Features=gpu"]


def test_slurmctld_gets_its_arguments_and_then_its_options(started: Start, state: Path) -> None:
    (state / "assoc_usage").touch()
    found = started("slurmctld", "slurmctld", HOSTILE, "a b", SLURMCTLD_OPTIONS="-vv *", SLURM_CONF=f"{state}/conf")
    assert found == ["-D", HOSTILE, "a b", "-vv", "*"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of slurmctld's state, which the file conf in it names."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "conf").write_text(f"ClusterName=x\nStateSaveLocation = {folder}\n")
    return folder


def test_errors_in_the_state_are_ignored_only_in_state_that_began_empty(started: Start, state: Path) -> None:
    def options() -> list[str]:
        return started("slurmctld", "slurmctld", SLURM_CONF=f"{state}/conf")

    assert options() == ["-D", "-i"]
    (state / "clustername").touch()  # slurmctld was killed before it had written assoc_usage
    assert options() == ["-D", "-i"]
    (state / "assoc_usage").touch()
    assert options() == ["-D"]
    (state / "assoc_usage").unlink()  # lost later
    assert options() == ["-D"]


@pytest.mark.parametrize("file", ["clustername", "job_state", "node_state"])
def test_errors_in_restored_state_stop_slurmctld(started: Start, state: Path, file: str) -> None:
    (state / file).touch()
    assert started("slurmctld", "slurmctld", SLURM_CONF=f"{state}/conf") == ["-D"]
