# SPDX-License-Identifier: Apache-2.0
"""The first process of a machine: `python -m slinky.lab.machine.supervisor` reads a task and runs it.

It runs as PID 1 of new namespaces, enters the root file system, then either replaces itself by a command or stays as
the supervisor that starts, stops and reaps the machine's daemons. Killing it ends everything inside, which is how a
lab is removed and how a node crashes. After `enter` only modules that are already loaded are available, so it imports
only the standard library, at the top.
"""

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slinky.lab.machine.rootfs import RootFilesystem, enter


class Supervisor:
    """Parent of a machine's daemons, controlled over a unix socket: one line of JSON per request and response."""

    def __init__(self, listener: socket.socket, logs: int) -> None:
        self._listener = listener
        self._logs = logs
        self._pids: dict[str, int] = {}
        self._exits: dict[str, int] = {}
        self._commands: dict[str, tuple[list[str], dict[str, str], int]] = {}
        self._operations: dict[str, Callable[..., Any]] = {
            "start": self.start,
            "signal": self.signal,
            "status": self.status,
            "command": self.command,
        }

    def start(self, name: str, argv: list[str], env: dict[str, str], uid: int = 0) -> int:
        """Start a daemon; its output goes to the log of its name."""
        if name in self._pids:
            raise ValueError(f"{name} is running already, with pid {self._pids[name]}")
        self._exits.pop(name, None)
        self._commands[name] = (argv, env, uid)
        pid = os.fork()
        if pid == 0:
            self._exec(name, argv, env, uid)
        self._pids[name] = pid
        return pid

    def signal(self, name: str, number: int) -> bool:
        """Send a signal; false when no such daemon runs."""
        pid = self._pids.get(name)
        if pid is None:
            return False
        os.kill(pid, number)
        return True

    def status(self) -> dict[str, dict[str, int | None]]:
        """Every daemon ever started: its pid while it runs, its exit code afterwards."""
        running = {name: {"pid": pid, "exit": None} for name, pid in self._pids.items()}
        return running | {name: {"pid": None, "exit": code} for name, code in self._exits.items()}

    def command(self, name: str) -> tuple[list[str], dict[str, str], int]:
        """How a daemon was started last: its command line, environment and user."""
        return self._commands[name]

    def _exec(self, name: str, argv: list[str], env: dict[str, str], uid: int) -> None:
        try:
            os.setsid()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            out = os.open(f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644, dir_fd=self._logs)
            null = os.open("/dev/null", os.O_RDONLY)
            for source, target in ((null, 0), (out, 1), (out, 2)):
                os.dup2(source, target)
            os.closerange(3, 256)
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            os.execvpe(argv[0], argv, env)  # noqa: S606 - no shell is the point
        except OSError as problem:
            os.write(2, f"{argv[0]}: {problem}\n".encode())
        finally:
            os._exit(127)

    def serve(self) -> None:
        """Handle requests and reap processes, without end."""
        wake, wakened = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == wake:
                        os.read(wake, 512)
                    else:
                        self._answer()
                self._reap()

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(5)
            try:
                with connection.makefile("rw") as stream:
                    request = json.loads(stream.readline())
                    self._reap()
                    try:
                        reply = {"result": self._operations[request.pop("op")](**request)}
                    except Exception as problem:
                        reply = {"error": f"{type(problem).__name__}: {problem}"}
                    stream.write(json.dumps(reply) + "\n")
            except (OSError, ValueError):
                return

    def _reap(self) -> None:
        """Reap our daemons and the orphans that PID 1 inherits."""
        names = {pid: name for name, pid in self._pids.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if name := names.get(pid):
                del self._pids[name]
                self._exits[name] = os.waitstatus_to_exitcode(status)


def main() -> None:
    """Read the task from the named file and run it."""
    task = json.loads(Path(sys.argv[1]).read_text())
    listener = logs = None
    if address := task.get("socket"):
        listener = socket.socket(socket.AF_UNIX)
        Path(address).unlink(missing_ok=True)
        listener.bind(address)
        logs = os.open(task["logs"], os.O_RDONLY | os.O_DIRECTORY)
    if root := task.get("root"):
        enter(RootFilesystem.from_json(root))
    if listener is None or logs is None:
        os.execvpe(task["argv"][0], task["argv"], task["env"])  # noqa: S606 - no shell is the point
    listener.listen(16)
    Supervisor(listener, logs).serve()


if __name__ == "__main__":
    main()
