# SPDX-License-Identifier: Apache-2.0
"""When a worker registers again that slurmctld has lost, with the programs it asks played by small scripts."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "images/slurmd/reregister"
#: What slurmctld says, a word for each look. After the last one the script itself is ended, by its sleep.
FAKES = {
    "uname": "echo gpu-0.inside",
    "od": "echo 7",
    "sleep": """
        echo "$1" >>"$NOTES/slept"
        sed -i 1d "$NOTES/said"
        [ -s "$NOTES/said" ] || kill -s TERM "$PPID"
    """,
    "sinfo": """
        case $(head -n 1 "$NOTES/said") in
            there) echo gpu-0 ;;
            silence) exit 1 ;;
        esac
    """,
    "scontrol": """
        case $(head -n 1 "$NOTES/said") in
            lost) echo "Node gpu-0 not found"; exit 1 ;;
            elsewhere) echo "NodeName=gpu-0 State=IDLE" ;;
        esac
    """,
}
#: Stands for slurmd: counts how often it is told to start anew.
SLURMD = """
trap 'echo told >>"$NOTES/told"' HUP
: >"$NOTES/ready"
while [ ! -e "$NOTES/end" ]; do /bin/sleep 0.02; done
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "proc").mkdir()
    for name, script in FAKES.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def slurmd(notes: Path) -> Iterator["subprocess.Popen[bytes]"]:
    # Whoever runs the tests may ignore SIGHUP, as nohup does, and a shell cannot trap what it was born ignoring.
    argv = ["env", "--default-signal=HUP", "/bin/sh", "-c", SLURMD]
    made = subprocess.Popen(argv, env={**os.environ, "NOTES": str(notes)})
    while not (notes / "ready").exists():
        assert made.poll() is None
    yield made
    made.kill()
    made.wait()


def process(notes: Path, pid: int, comm: str, *argv: str) -> None:
    folder = notes / "proc" / str(pid)
    folder.mkdir()
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "cmdline").write_bytes("\0".join(argv).encode())


def told(notes: Path, slurmd: "subprocess.Popen[bytes]", said: str, **env: str) -> int:
    """How often slurmd was told to start anew while slurmctld said this."""
    (notes / "said").write_text("".join(f"{word}\n" for word in ["first", *said.split()]))
    paths = {"NOTES": str(notes), "PROC": str(notes / "proc"), "PATH": f"{notes / 'bin'}:{os.environ['PATH']}"}
    argv = ["/bin/sh", str(SCRIPT), str(slurmd.pid)]
    subprocess.run(argv, env={**os.environ, **paths, **env}, capture_output=True, timeout=60, check=False)
    (notes / "end").touch()
    slurmd.wait(20)
    heard = notes / "told"
    return len(heard.read_text().splitlines()) if heard.exists() else 0


CASES = [
    ("known all the time", "there there there there", 0),
    ("lost for good", "there lost lost lost there", 1),
    ("lost, but not for long", "there lost lost there lost lost", 0),
    ("slurmctld does not answer", "there silence silence silence silence", 0),
    ("lost, and then no answer", "there lost lost silence lost lost", 0),
    ("in no partition, but known", "there elsewhere elsewhere elsewhere", 0),
    ("in no partition, and lost", "elsewhere lost lost lost there", 1),
    ("never known under this name", "lost lost lost lost lost", 0),
]


@pytest.mark.parametrize(("law", "said", "times"), CASES, ids=[case[0] for case in CASES])
def test_a_worker_registers_again_when_slurmctld_has_lost_it(
    notes: Path, slurmd: "subprocess.Popen[bytes]", law: str, said: str, times: int
) -> None:
    process(notes, 7, "slurmd", "/usr/sbin/slurmd", "-D")
    process(notes, 9, "slurmstepd", "/usr/sbin/slurmstepd", "infinity")
    assert told(notes, slurmd, said) == times


def test_it_does_not_while_a_job_is_there(notes: Path, slurmd: "subprocess.Popen[bytes]") -> None:
    process(notes, 12, "slurmstepd", "slurmstepd: [4711.batch]")
    assert told(notes, slurmd, "there lost lost lost lost lost") == 0


def test_it_looks_rarely_and_not_all_workers_at_once(notes: Path, slurmd: "subprocess.Popen[bytes]") -> None:
    told(notes, slurmd, "there there lost lost lost there")
    assert (notes / "slept").read_text().split() == ["8", "300", "300", "31", "31", "300", "300"]


def test_it_can_be_switched_off(notes: Path, slurmd: "subprocess.Popen[bytes]") -> None:
    assert told(notes, slurmd, "there lost lost lost", SLINKY_REREGISTER_SECONDS="0") == 0
    assert not (notes / "slept").exists()
