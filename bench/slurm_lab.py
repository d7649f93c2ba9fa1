# SPDX-License-Identifier: Apache-2.0
"""A Slurm of the lab for benchmarks that are given none."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from slinky.lab import bringup
from slinky.lab.progress import Progress


@contextlib.contextmanager
def started() -> Iterator[tuple[str, Path]]:
    """A Slurm of the lab that lasts as long as the run."""
    lab = bringup.up(bringup.LabOptions(name="bench-slurm", nodes=0, slurm="alone", owner=os.getpid()), Progress())
    try:
        yield lab.slurm.url, lab.folder / "slurm/keys/jwt_hs256.key"
    finally:
        bringup.down(lab.name)
