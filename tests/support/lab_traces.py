# SPDX-License-Identifier: Apache-2.0
"""What a lab could leave behind on the machine: mounts, links, network namespaces, cgroups, processes and folders.

What belongs to another lab does not count.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import until

from slinky.lab import lab_state, paths
from slinky.lab.machine import cgroups
from slinky.lab.machine.network import Network


def traces(name: str) -> list[str]:
    """Everything on this machine that belongs to a lab of that name."""
    folder = str(paths.labs() / name)
    remains = [
        str(top / cgroups.branch(name)) for top in cgroups.hierarchies() if (top / cgroups.branch(name)).exists()
    ]
    remains += [line for line in Path("/proc/self/mounts").read_text().splitlines() if f"{folder}/" in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/" in command or f"{folder} " in command:
            remains.append(f"{process.name}: {command}")
    return [*remains, *([folder] if Path(folder).exists() else [])]


def links() -> set[str]:
    """The network links of this machine."""
    shown = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifname"] for link in json.loads(shown)}


def machine_wide() -> set[str]:
    """What a lab could leave anywhere: mounts, links, named network namespaces, cgroups."""
    mounts = set(Path("/proc/self/mounts").read_text().splitlines())
    named = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    groups = {str(folder) for top in cgroups.hierarchies() for folder in top.iterdir() if folder.is_dir()}
    return mounts | links() | set(named) | groups


def owned_by_others(name: str) -> Callable[[str], bool]:
    """Whether a trace on the machine belongs to a lab that exists now and has another name."""
    links_and_groups: set[str] = set()
    folders: list[str] = []
    for other in set(lab_state.names()) - {name}:
        state = lab_state.load(other)
        if state is not None and state.index is not None:
            links_and_groups.add(Network(state.index).link)
        links_and_groups |= {str(top / cgroups.branch(other)) for top in cgroups.hierarchies()}
        folders.append(f"{paths.labs() / other}/")
    return lambda trace: trace in links_and_groups or any(folder in trace for folder in folders)


def wait_clean(name: str, before: set[str]) -> None:
    """Wait until the machine has what it had before; labs of other names may have come in the meantime."""

    def is_clean() -> bool:
        is_foreign = owned_by_others(name)
        remains = {trace for trace in machine_wide() - before if not is_foreign(trace)}
        assert remains == set()
        return True

    until(is_clean, "removal of every trace")
