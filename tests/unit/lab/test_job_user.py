# SPDX-License-Identifier: Apache-2.0
"""The prolog that gives names to the users of jobs, with a small script that stands for getent."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "images/slurmd/job-user"
#: Knows root, and what the script has written.
GETENT = """
grep -qE "^($2:|[^:]*:[^:]*:$2:)" "$EXTRAUSERS/$1" 2>/dev/null || { [ "$2" = root ] || [ "$2" = 0 ]; }
"""
CAROL = {"SLURM_JOB_USER": "carol", "SLURM_JOB_UID": "5001", "SLURM_JOB_GID": "6001", "SLURM_JOB_GROUP": "science"}
PASSWD = "carol:x:5001:6001::/home/carol:/bin/bash\n"
GROUP = "science:x:6001:\n"


def run(folder: Path, **job: str) -> subprocess.CompletedProcess[str]:
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "getent").write_text(f"#!/bin/sh\n{GETENT}")
    (tools / "getent").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "EXTRAUSERS": str(folder / "extrausers"), **job}
    return subprocess.run(["/bin/sh", str(SCRIPT)], env=env, capture_output=True, text=True, check=True)


def written(folder: Path, name: str) -> str:
    file = folder / "extrausers" / name
    return file.read_text() if file.exists() else ""


def test_the_user_of_a_job_has_a_name_once(tmp_path: Path) -> None:
    for _ in range(2):
        run(tmp_path, **CAROL)
    assert (written(tmp_path, "passwd"), written(tmp_path, "group")) == (PASSWD, GROUP)
    run(tmp_path, **CAROL | {"SLURM_JOB_USER": "dave", "SLURM_JOB_UID": "5002"}, SLINKY_HOMES="/users")
    assert written(tmp_path, "passwd") == PASSWD + "dave:x:5002:6001::/users/dave:/bin/bash\n"
    assert written(tmp_path, "group") == GROUP


@pytest.mark.parametrize(
    ("law", "job"),
    [
        ("root is known", {"SLURM_JOB_USER": "root", "SLURM_JOB_UID": "0", "SLURM_JOB_GID": "0"}),
        ("a name cannot be root's", CAROL | {"SLURM_JOB_USER": "root"}),
        ("a name has no colon", CAROL | {"SLURM_JOB_USER": "a:x:0:0"}),
        ("nor a line break", CAROL | {"SLURM_JOB_USER": "a\nroot2:x:0:0::/:"}),
        ("a number is no name", CAROL | {"SLURM_JOB_USER": "5001"}),
        ("an id is a number", CAROL | {"SLURM_JOB_UID": "0:0"}),
        ("of at most ten digits", CAROL | {"SLURM_JOB_UID": "99999999999"}),
        ("no job, no user", {}),
    ],
)
def test_nothing_that_is_not_a_user_is_written(tmp_path: Path, law: str, job: dict[str, str]) -> None:
    run(tmp_path, **job)
    assert not written(tmp_path, "passwd"), law


def test_a_name_with_another_id_is_kept(tmp_path: Path) -> None:
    run(tmp_path, **CAROL)
    done = run(tmp_path, **CAROL | {"SLURM_JOB_UID": "5009"})
    assert written(tmp_path, "passwd") == PASSWD
    assert "another id" in done.stderr


def test_a_folder_that_cannot_be_written_ends_no_job(tmp_path: Path) -> None:
    (tmp_path / "extrausers").write_text("in the way")
    assert "cannot be written" in run(tmp_path, **CAROL).stderr
