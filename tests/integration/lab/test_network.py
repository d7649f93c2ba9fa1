# SPDX-License-Identifier: Apache-2.0
"""Networks of labs on this machine: which lab a link belongs to."""

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import until

from slinky.lab.machine import network


@contextlib.contextmanager
def namespace() -> Iterator[int]:
    """The id of a process with a network namespace of its own, such as the control machine of a lab."""
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as process:
        own = Path("/proc/self/ns/net").readlink()
        until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own or None, "a network namespace")
        try:
            yield process.pid
        finally:
            process.kill()


def links() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def test_a_lab_that_ends_late_leaves_the_link_of_its_successor(tmp_path: Path) -> None:
    """The link of a killed lab ends with its namespace, and another lab may claim its network before it is released."""
    with namespace() as control:
        former = network.claim(control, tmp_path / "former")
    until(lambda: former.link not in links() or None, "the link to end with its namespace")
    with namespace() as control:
        # Usually the same index, unless a lab of another test process has claimed it in between.
        successor = network.claim(control, tmp_path / "successor")
        _, number = (tmp_path / "former").read_text().split()
        (tmp_path / "former").write_text(f"{successor.index} {number}")
        network.release(tmp_path / "former")
        assert successor.link in links()
        network.release(tmp_path / "successor")
        assert successor.link not in links()
