# SPDX-License-Identifier: Apache-2.0
"""The examples of the Slurm client run as they are."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slinky.lab.slurm.cluster import LabSlurm

EXAMPLES = sorted(Path("examples/slurm-client").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
async def test_an_example_runs(path: Path, slurm: LabSlurm) -> None:
    env = os.environ | {"SLURM_URL": slurm.url, "SLURM_JWT": slurm.token(), "SLURM_ACCOUNT": "lab"}
    run = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", str(path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout
