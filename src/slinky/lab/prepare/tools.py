# SPDX-License-Identifier: Apache-2.0
"""Programs of the host that the lab calls; missing ones are installed with apt-get, or named if there is none."""

import os
import shutil

from slinky.lab.errors import LabError
from slinky.lab.machine.sandbox import stream
from slinky.lab.progress import Progress

PACKAGES = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def require_root(purpose: str) -> None:
    """Fail unless this process runs as root, which namespaces, mounts and cgroups require."""
    if os.geteuid() != 0:
        raise LabError(f"{purpose} needs root", "run it with sudo, or as root in a virtual machine")


def require_tools(progress: Progress) -> None:
    """Install the programs of the table that are missing."""
    missing = sorted({package for tool, package in PACKAGES.items() if not shutil.which(tool)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"this machine lacks {', '.join(missing)}", "install them with its package manager")
    with progress.task(f"installing {', '.join(missing)} with apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        stream(["apt-get", "update", "-qq"], env=quiet)
        stream(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], env=quiet)
