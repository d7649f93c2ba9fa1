# SPDX-License-Identifier: Apache-2.0
"""What a slurmctld does about one that serves in its place, with the programs it asks played by small scripts."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "images/slurmctld/takeover"
CONF = """
slurmctldhost = c-0(c-0.inside)
SlurmctldHost=c-1(c-1.inside)  # the first standby
SlurmctldHost=c-2(c-2.inside)
SlurmctldAddr=c.outside
SlurmctldPort=7000-7003
ClusterName=one
"""
#: Each notes what it was asked. The answer of a controller is in a file of its name, a line for each question, the
#: last one for all that follow.
FAKES = {
    "uname": 'echo "$ME"',
    "sleep": ":",
    "curl": """
        for url; do :; done
        echo "$url" >>"$NOTES/curl"
        host=${url#http://}; file="$NOTES/${host%%.*}"
        [ -e "$file" ] || { printf 000; exit 7; }
        printf %s "$(head -n 1 "$file")"
        [ "$(wc -l <"$file")" -gt 1 ] && sed -i 1d "$file"
        exit 0
    """,
    "sackd": "exec /bin/sleep 60",
    "scontrol": """
        echo "$*: $(grep -i 'Slurmctld' "$SLURM_CONF" | tr '\\n' ' ')" >>"$NOTES/scontrol"
        [ -e "$(dirname "$SLURM_CONF")/slurm.key" ] || exit 1
    """,
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/slurm.conf").write_text(CONF)
    (tmp_path / "etc/slurm.key").write_text("key")
    for name, script in FAKES.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def take_charge(notes: Path, me: str, **answers: str) -> tuple[int, list[str]]:
    """Its exit code, and what it asked of scontrol."""
    for host, said in answers.items():
        (notes / host.replace("_", "-")).write_text("".join(f"{code}\n" for code in said.split()))
    paths = {"NOTES": str(notes), "TMPDIR": str(notes), "SLURM_CONF": str(notes / "etc/slurm.conf")}
    env = {**os.environ, **paths, "ME": me, "SACKD": "sackd", "PATH": f"{notes / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", str(SCRIPT)], env=env, capture_output=True, text=True, timeout=60, check=False)
    heard = notes / "scontrol"
    assert not list(notes.glob("takeover.*"))
    return done.returncode, heard.read_text().splitlines() if heard.exists() else []


def test_the_one_that_serves_is_told_to_end_and_nobody_else(notes: Path) -> None:
    code, asked = take_charge(notes, "c-0", c_1="500", c_2="204 204 204 000 500")
    assert code == 0
    assert asked == ["shutdown slurmctld: SlurmctldPort=7000-7003 SlurmctldHost=c-2(c-2.inside) "]
    assert (notes / "c-2").read_text() == "500\n"
    assert "http://c-1.inside:7000/readyz" in (notes / "curl").read_text()


def test_one_that_does_not_come_back_is_waited_for_and_then_no_longer(notes: Path) -> None:
    assert take_charge(notes, "c-0", c_1="204 204 000")[0] == 0
    assert (notes / "curl").read_text().count("c-1.inside") == 2 + 10


def test_one_that_goes_on_serving_keeps_its_place(notes: Path) -> None:
    code, asked = take_charge(notes, "c-1", c_2="204")
    assert code == 1
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("me", "answers"), [("c-2", {"c_0": "204"}), ("c-0", {"c_1": "500"}), ("else", {"c_1": "204"})]
)
def test_others_are_left_alone(notes: Path, me: str, answers: dict[str, str]) -> None:
    assert take_charge(notes, me, **answers) == (0, [])
