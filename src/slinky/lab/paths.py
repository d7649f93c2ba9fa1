# SPDX-License-Identifier: Apache-2.0
"""Folders of the lab: a cache of prepared artifacts, and one folder per running lab.

Both are outside the checkout and can be moved with `SLINKY_CACHE` and `SLINKY_STATE`. They should be on the same
file system, because nodes then get their images as hard links instead of copies.
"""

import os
import re
import shutil
from pathlib import Path

from slinky.lab.errors import LabError

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


def cache() -> Path:
    """The folder of prepared artifacts."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slinky"
    return Path(os.environ.get("SLINKY_CACHE") or default)


def labs() -> Path:
    """The folder that holds one folder per lab."""
    return Path(os.environ.get("SLINKY_STATE") or "/var/lib/slinky/labs")


def checked_name(name: str) -> str:
    """The name of a lab, which ends up in cgroup, socket and folder names."""
    if not _NAME.fullmatch(name):
        raise LabError(
            f"lab name {name!r} is not usable",
            "use 1 to 20 lower-case letters, digits and dashes, starting with a letter",
        )
    return name


def require_space(folder: Path, gigabytes: float, purpose: str) -> None:
    """Fail early if the disk has not enough space for the next step."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise LabError(
            f"{purpose} needs {gigabytes:g} GB but the disk of {folder} has {free:.1f} GB free",
            "free some space, or point SLINKY_CACHE and SLINKY_STATE at a larger disk",
        )
