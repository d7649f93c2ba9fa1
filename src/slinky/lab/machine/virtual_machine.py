# SPDX-License-Identifier: Apache-2.0
"""A machine of the lab whose daemons run in a QEMU guest with its own kernel and systemd.

The machine's namespaces hold QEMU, two virtiofsd and one ssh connection to the guest; they end together, so that a
guest crashes, and is removed, like every other machine. The guest has the root file system of the namespaces, which
virtiofsd shares. A second network card, which is connected to these namespaces only, carries ssh, so that commands
reach a guest that is cut off from the lab's network.
"""

import json
import os
import shlex
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from slinky.lab.errors import LabError
from slinky.lab.machine import network
from slinky.lab.machine.machine import PATH, Machine, until
from slinky.lab.machine.network import MANAGEMENT_GUEST, Network
from slinky.lab.machine.sandbox import run_in

ARCHITECTURE = "x86_64"
CPUS = 2
MEMORY_MIB = 3072
LOGS = "/var/log/slinky"
KERNEL = "/boot/vmlinuz"
#: Where the namespaces see the disk that all guests share, and the folder of the node's own disk.
BACKING_DISK = "/mnt/backing-disk"
NODE_DISK = "/mnt/node-disk"
VOLUMES = "/mnt/volumes"
ACCELERATOR_VARIABLE = "SLINKY_VM_ACCELERATOR"

_CONNECTION = "/run/guest-connection"
SSH_CONFIG = f"""\
Host guest
  HostName {MANAGEMENT_GUEST}
  User root
  IdentityFile /etc/slinky/pki/ssh_key
  UserKnownHostsFile /etc/slinky/pki/known_hosts
  ControlPath {_CONNECTION}
  BatchMode yes
  LogLevel ERROR
"""
_SSH = ("ssh", "-F", "/etc/slinky/ssh_config")


class VirtualMachine(Machine):
    """Commands to one guest; `folder` holds the socket of its namespaces and its logs."""

    def __init__(self, name: str, folder: Path, accelerator: str) -> None:
        super().__init__(name, folder)
        self._accelerator = accelerator
        self._commands = folder / "daemons.json"

    def connect(self, network_plan: Network, control: int, address: str) -> None:
        """Connect the guest to the lab's network, boot it and wait until it takes commands."""
        network.attach_guest(control, self.pid(), self.name)
        self._commands.write_text("{}")
        self._run_outside(["sh", "-ec", _CREATE_DISK])
        limit = os.sysconf("SC_OPEN_MAX")
        for name, folder, cache in (("root", "/", "always"), ("volumes", VOLUMES, "auto")):
            super().start(f"virtiofsd-{name}", virtiofsd_command(name, folder, cache, limit))
        sockets = [self._inside(f"/run/virtiofsd-{name}") for name in ("root", "volumes")]
        until(lambda: all(socket.exists() for socket in sockets), f"virtiofsd of {self.name}", 60, self._why)
        super().start(
            "qemu", qemu_command(self.name, self._accelerator, str(uuid.uuid5(uuid.NAMESPACE_OID, str(self.folder))))
        )
        super().start("ssh", [*_SSH, "-M", "-N", "-o", "ConnectTimeout=2", "-o", "ConnectionAttempts=900", "guest"])
        until(self._is_connected, f"the guest of {self.name} to boot", 600, self._why)

    def alive(self) -> bool:
        """Whether the namespaces of the guest exist."""
        try:
            self.call("status")
        except LabError:
            return False
        return True

    def status(self) -> dict[str, dict[str, int | None]]:
        """The daemons of the guest, and what its namespaces run."""
        names = list(self._read_commands())
        units = self._show_units(names) if names and self._is_connected() else {name: {} for name in names}
        daemons = {name: _unit_state(properties) for name, properties in units.items()}
        return {**super().status(), **daemons}

    def command(self, name: str) -> tuple[list[str], dict[str, str], int]:
        """How a daemon was started last."""
        commands = self._read_commands()
        if name not in commands:
            return super().command(name)
        argv, env, uid = commands[name]
        return argv, env, uid

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None, uid: int = 0) -> None:
        """Start a daemon in the guest, as a service of systemd."""
        variables = {"PATH": PATH, **(env or {})}
        self._commands.write_text(json.dumps({**self._read_commands(), name: (list(argv), variables, uid)}))
        self.run(["sh", "-ec", _START, "sh", unit(name), *systemd_run(name, argv, variables, uid)], timeout=180)

    def send_signal(self, name: str, number: int) -> bool:
        """Send a signal to a daemon; false if no such daemon runs."""
        if name not in self._read_commands():
            return super().send_signal(name, number)
        argv = ["systemctl", "kill", "--kill-whom=main", f"--signal={signal.Signals(number).name}", unit(name)]
        return self.run(argv, check=False).returncode == 0

    def has_file(self, path: str) -> bool:
        """Whether a file exists in the guest."""
        return self.run(["test", "-e", path], check=False).returncode == 0

    def enter_command(
        self, argv: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """A command line that runs `argv` in the guest."""
        terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        variables = {"PATH": PATH, "HOME": "/root", **(env or {})}
        place = [f"--chdir={folder}"] if folder else []
        command = shlex.join(["env", *place, *(f"{key}={value}" for key, value in variables.items()), *argv])
        return super().enter_command([*_SSH, *terminal, "guest", "--", command])

    def _run_outside(self, argv: Sequence[str]) -> None:
        """Run a command in the namespaces of the guest, outside the guest."""
        outside = Machine(self.name, self.folder)
        outside.run(argv)

    def _inside(self, path: str) -> Path:
        return Path(f"/proc/{self.pid()}/root{path}")

    def _is_connected(self) -> bool:
        self.require_outside("qemu")
        return self._inside(_CONNECTION).exists()

    def require_outside(self, name: str) -> None:
        """Raise an error with the end of the log if QEMU or virtiofsd has ended."""
        if super().status().get(name, {}).get("pid") is None:
            raise LabError(f"{name} of {self.name} ended:\n{self._why()}", f"read {self.logs / f'{name}.log'}")

    def _why(self) -> str:
        return "\n".join(f"{name}:\n{self.tail(name)}" for name in ("virtiofsd-root", "qemu", "console", "ssh"))

    def _read_commands(self) -> dict[str, Any]:
        try:
            commands: dict[str, Any] = json.loads(self._commands.read_text())
        except FileNotFoundError:
            return {}
        return commands

    def _show_units(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        units = {unit(name): name for name in names}
        shown = self.run(["systemctl", "show", "--property=Id,MainPID,ExecMainStatus", *units])
        blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in shown.stdout.split("\n\n")]
        return {units[block["Id"]]: block for block in blocks if "Id" in block}


def choose_accelerator(tree: Path) -> str:
    """KVM where a guest boots with it, otherwise TCG, which needs nothing of the machine but is slower.

    A device /dev/kvm is no proof: nested KVM may hang. A kernel without a root file system ends at once with a panic.
    """
    if wanted := os.environ.get(ACCELERATOR_VARIABLE, ""):
        if wanted not in ("kvm", "tcg"):
            raise LabError(f"{ACCELERATOR_VARIABLE} is {wanted}", "set it to kvm or tcg, or unset it")
        return wanted
    if not Path("/dev/kvm").exists():
        return "tcg"
    lines: list[str] = []
    run_in(tree, ["sh", "-c", 'timeout --signal=KILL 6 "$@"; exit 0', "sh", *_PROBE], on_line=lines.append)
    return "kvm" if any("Kernel panic" in line for line in lines) else "tcg"


def write_ssh_key(folder: Path) -> None:
    """Write the key that is the guest's host key and the only key that it accepts."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    file = folder / "ssh_key"
    file.touch(mode=0o600)
    file.write_bytes(private)
    (folder / "ssh_key.pub").write_text(f"{public}\n")
    (folder / "known_hosts").write_text(f"{MANAGEMENT_GUEST} {public}\n")


def virtiofsd_command(name: str, folder: str, cache: str, open_files: int) -> list[str]:
    """The command that shares a folder of the namespaces with the guest."""
    return [
        "/usr/libexec/virtiofsd", f"--socket-path=/run/virtiofsd-{name}", f"--shared-dir={folder}", f"--cache={cache}",
        "--no-announce-submounts", "--sandbox=none", "--xattr", "--log-level=warn",
        "--inode-file-handles=never", f"--rlimit-nofile={open_files}",
    ]  # fmt: skip


def qemu_command(name: str, accelerator: str, identity: str) -> list[str]:
    """The command that runs the guest; `identity` is a UUID and becomes its machine id."""
    processor = {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"],
    }
    kernel = (
        "console=ttyS0 loglevel=4 rootfstype=virtiofs root=root rw panic=-1 mitigations=off net.ifnames=0 "
        f"systemd.unit=slinky.target systemd.show_status=no systemd.hostname={name} "
        f"systemd.machine_id={identity.replace('-', '')}"
    )
    devices = [
        *map(_share, ("root", "volumes")),
        *(_card(tap, identity, n) for n, tap in enumerate(network.GUEST_TAPS)),
    ]
    return [
        "qemu-system-x86_64", *processor[accelerator], "-smp", str(CPUS), "-m", str(MEMORY_MIB),
        "-object", f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on",
        "-machine", "q35,memory-backend=memory",
        "-kernel", KERNEL, "-append", kernel, "-nodefaults", "-no-user-config",
        "-display", "none", "-monitor", "none", "-serial", f"file:{LOGS}/console.log", "-no-reboot",
        "-drive", f"file={NODE_DISK}/disk.qcow2,if=virtio,format=qcow2,cache=unsafe,discard=unmap",
        *chain.from_iterable(devices), "-device", "virtio-rng-pci",
    ]  # fmt: skip


def unit(name: str) -> str:
    """The unit of a daemon; its own name, because packages of the guest have units such as containerd.service."""
    return f"lab-{name}.service"


def systemd_run(name: str, argv: Sequence[str], env: Mapping[str, str], uid: int) -> list[str]:
    """The command that starts a service in the guest with its output in a file that the lab's host reads."""
    log = f"append:{LOGS}/{name}.log"
    properties = {
        "DefaultDependencies": "no", "StandardOutput": log, "StandardError": log, "Delegate": "yes",
        "KillMode": "process", "OOMScoreAdjust": "-999", "LimitNOFILE": "1048576", "TasksMax": "infinity",
    }  # fmt: skip
    return [
        "systemd-run", "--quiet", f"--unit={unit(name)}", "--service-type=exec", f"--uid={uid}",
        *(f"--property={key}={value}" for key, value in properties.items()),
        "--", "/usr/bin/env", *(f"{key}={value}" for key, value in env.items()), *argv,
    ]  # fmt: skip


def _share(name: str) -> list[str]:
    chardev = f"socket,id={name},path=/run/virtiofsd-{name}"
    return ["-chardev", chardev, "-device", f"vhost-user-fs-pci,chardev={name},tag={name},queue-size=1024"]


def _card(tap: str, identity: str, number: int) -> list[str]:
    netdev = f"tap,id={tap},ifname={tap},script=no,downscript=no"
    return ["-netdev", netdev, "-device", f"virtio-net-pci,netdev={tap},mac={_mac(identity, number)}"]


_START = 'systemctl reset-failed "$1" 2>/dev/null || :; shift; exec "$@"'
_PROBE = ("qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "256", "-kernel", KERNEL,
          "-append", "console=ttyS0 panic=-1", "-display", "none", "-monitor", "none", "-serial", "stdio",
          "-no-reboot")  # fmt: skip
_CREATE_DISK = (
    f"[ -e {NODE_DISK}/disk.qcow2 ] || "
    f"qemu-img create -q -f qcow2 -F raw -b {BACKING_DISK}/disk.img {NODE_DISK}/disk.qcow2"
)


def _mac(identity: str, number: int) -> str:
    digits = identity.replace("-", "")[:8]
    return f"52:{digits[:2]}:{digits[2:4]}:{digits[4:6]}:{digits[6:8]}:{number:02x}"


def _unit_state(properties: Mapping[str, str]) -> dict[str, int | None]:
    pid = int(properties.get("MainPID") or 0)
    return {"pid": pid, "exit": None} if pid else {"pid": None, "exit": int(properties.get("ExecMainStatus") or 0)}
