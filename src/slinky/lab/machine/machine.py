# SPDX-License-Identifier: Apache-2.0
"""A machine of the lab, seen from the host: one set of namespaces with a supervisor inside.

The control plane, every node and Slurm are machines. A machine is found by its unix socket: the kernel tells which
process listens there, so no pid file can name the wrong process. `slinky.lab.machine.supervisor` runs inside.
"""

import dataclasses
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slinky.lab.errors import LabError
from slinky.lab.machine import network
from slinky.lab.machine.network import Network
from slinky.lab.machine.rootfs import RootFilesystem

PATH = "/opt/slinky/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net")
#: Pauses of polling in seconds, and how many times the duration of a check the pause after it is.
SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_RATIO = 0.03, 1.0, 3


class Machine:
    """Commands to one supervisor; `folder` holds its socket and its logs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.logs = folder / "log"
        self.socket = folder / "socket"

    def launch_command(self, root: RootFilesystem | None) -> list[str]:
        """The command that starts the machine; the machine ends with the process that runs the command."""
        self.logs.mkdir(parents=True, exist_ok=True)
        task = {
            "socket": str(self.socket),
            "logs": str(self.logs),
            "root": dataclasses.asdict(root) if root else None,
        }
        return unshared(self.folder / "task.json", task, NAMESPACES)

    def alive(self) -> bool:
        """Whether the supervisor answers."""
        try:
            self.call("status")
        except LabError:
            return False
        return True

    def wait_alive(self, seconds: float = 20) -> None:
        """Return once the supervisor answers."""
        until(self.alive, f"machine {self.name} to start", seconds, lambda: self.tail("init"))

    def pid(self) -> int:
        """The process id of the supervisor on the host."""
        with self._connect() as connection:
            size = struct.calcsize("3i")
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            pid: int = struct.unpack("3i", raw)[0]
            return pid

    def call(self, operation: str, **arguments: Any) -> Any:
        """Send a request to the supervisor."""
        try:
            with self._connect() as connection, connection.makefile("rw") as stream:
                stream.write(json.dumps({"op": operation, **arguments}) + "\n")
                stream.flush()
                line = stream.readline()
        except OSError as problem:
            raise LabError(f"machine {self.name} went away: {problem}") from problem
        if not line:
            raise LabError(f"machine {self.name} closed the connection")
        reply = json.loads(line)
        if "error" in reply:
            raise LabError(f"machine {self.name}: {reply['error']}")
        return reply["result"]

    def status(self) -> dict[str, dict[str, int | None]]:
        """Every daemon: its pid while it runs, its exit code afterwards."""
        daemons: dict[str, dict[str, int | None]] = self.call("status")
        return daemons

    def command(self, name: str) -> tuple[list[str], dict[str, str], int]:
        """How a daemon was started last: its command line, environment and user."""
        argv, env, uid = self.call("command", name=name)
        return argv, env, uid

    def send_signal(self, name: str, number: int) -> bool:
        """Send a signal to a daemon; false if no such daemon runs."""
        return bool(self.call("signal", name=name, number=int(number)))

    def connect(self, network_plan: Network, control: int, address: str) -> None:
        """Connect the machine to the lab's network; `control` is the process whose namespace has the bridge."""
        network.attach(network_plan, control, self.pid(), self.name, address)

    def has_file(self, path: str) -> bool:
        """Whether a file exists inside."""
        return Path(f"/proc/{self.pid()}/root{path}").exists()

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None, uid: int = 0) -> None:
        """Start a daemon inside."""
        self.call("start", name=name, argv=list(argv), env={"PATH": PATH, **(env or {})}, uid=uid)

    def running(self, name: str) -> bool:
        """Whether the daemon runs."""
        return self.status().get(name, {}).get("pid") is not None

    def stop(self, name: str, number: int = signal.SIGKILL, seconds: float = 30) -> None:
        """End a daemon and wait until it is gone."""
        if self.send_signal(name, number):
            until(lambda: not self.running(name), f"{name} on {self.name} to end", seconds)

    def restart(self, name: str) -> None:
        """End a daemon with -9 and start it again as it was."""
        argv, env, uid = self.command(name)
        self.stop(name)
        self.start(name, argv, env, uid)

    def require(self, name: str) -> None:
        """Raise an error with the end of the log if the daemon has ended."""
        state = self.status().get(name)
        if state is None or state["pid"] is None:
            code = state["exit"] if state else "never started"
            raise LabError(
                f"{name} on {self.name} ended (exit {code}):\n{self.tail(name)}",
                f"read {self.logs / f'{name}.log'}",
            )

    def tail(self, name: str, lines: int = 8) -> str:
        """The last lines of a daemon's log."""
        try:
            text = (self.logs / f"{name}.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(f"    {line[:300]}" for line in text.splitlines()[-lines:])

    def enter_command(
        self, argv: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """A command line that runs `argv` inside, in this folder of the machine and with these further variables."""
        variables = ["env", *(f"{key}={value}" for key, value in env.items())] if env else []
        return ["nsenter", f"--target={self.pid()}", "--mount", "--uts", "--ipc", "--net", "--pid",
                "--root", f"--wd={folder}" if folder else "--wd", "--", *variables, *argv]  # fmt: skip

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float = 60,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end."""
        done = subprocess.run(
            self.enter_command(argv, env=env),
            env={"PATH": PATH, "HOME": "/root"},
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise LabError(
                f"{' '.join(argv[:6])} on {self.name} failed with {done.returncode}: "
                f"{(done.stderr or done.stdout).strip()[-2000:]}"
            )
        return done

    def kill(self) -> None:
        """Kill the machine: everything inside ends at once."""
        try:
            pid = self.pid()
        except LabError:
            return
        os.kill(pid, signal.SIGKILL)
        until(lambda: not self.alive(), f"machine {self.name} to end", 120)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(15)
        try:
            connection.connect(str(self.socket))
        except OSError as problem:
            connection.close()
            raise LabError(f"machine {self.name} is not running") from problem
        return connection


def unshared(file: Path, task: Mapping[str, Any], namespaces: Sequence[str]) -> list[str]:
    """The command line that runs a task in its own namespaces and ends when its parent ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(task))
    inside = [sys.executable, "-P", "-m", "slinky.lab.machine.supervisor", str(file)]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child=KILL",
            "--propagation", "private", *namespaces, *inside]  # fmt: skip


def until(done: Callable[[], bool], what: str, seconds: float, why: Callable[[], str] = lambda: "") -> None:
    """Wait until a check is true; the error names what was waited for and why it did not happen."""
    deadline = time.monotonic() + seconds
    while True:
        begin = time.monotonic()
        if done():
            return
        if time.monotonic() > deadline:
            details = why()
            raise LabError(f"waited {seconds:g} s for {what}" + (f":\n{details}" if details else ""))
        time.sleep(pause_after(begin))


def pause_after(begin: float) -> float:
    """Seconds to wait before a check is repeated that began at `begin`.

    A check that takes long, such as a command in a container, is repeated less often, because polling takes CPU time
    from the daemons that it waits for.
    """
    return min(max(SHORTEST_PAUSE, PAUSE_RATIO * (time.monotonic() - begin)), LONGEST_PAUSE)
