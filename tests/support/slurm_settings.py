# SPDX-License-Identifier: Apache-2.0
"""A Slurm of the lab with other settings for the tests of a file: slurmctld restarts twice, which takes seconds."""

import contextlib
from collections.abc import Iterator, Mapping
from signal import SIGTERM

from slinky.lab.slurm.cluster import LabSlurm

FOLDER = "/etc/slurm"


def changed(text: str, settings: Mapping[str, str], lines: str = "") -> str:
    """A slurm.conf with other values of some settings, and with further lines at its end."""
    kept = [line for line in text.splitlines() if line.partition("=")[0] not in settings]
    return "\n".join([*kept, *(f"{name}={value}" for name, value in settings.items()), lines, ""])


@contextlib.contextmanager
def slurm_settings(
    slurm: LabSlurm, settings: Mapping[str, str], *, lines: str = "", files: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run slurmctld with other settings, further lines of slurm.conf, and further files, until the block ends."""
    original = slurm.exec("cat", f"{FOLDER}/slurm.conf")
    others = files or {}
    try:
        restart_slurmctld(slurm, {"slurm.conf": changed(original, settings, lines), **others})
        yield
    finally:
        restart_slurmctld(slurm, {"slurm.conf": original, **dict.fromkeys(others, "")})


def restart_slurmctld(slurm: LabSlurm, files: Mapping[str, str] | None = None) -> None:
    """Stop slurmctld in an orderly way, replace files of its configuration (an empty one is removed), and start it."""
    slurm.stop("slurmctld", SIGTERM)
    for name, text in (files or {}).items():
        command = f"cat > {FOLDER}/{name}" if text else f"rm -f {FOLDER}/{name}"
        slurm.exec("sh", "-ec", command, input=text)
    slurm.start("slurmctld")
