# SPDX-License-Identifier: Apache-2.0
"""A running lab: its machines, and operations that break and repair them.

A `Lab` can be found by name at any time, because it consists of its state file and the sockets of its machines.
`bringup` creates labs, and the janitor removes them.
"""

import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from slinky.lab import lab_state
from slinky.lab.errors import LabError
from slinky.lab.kubernetes.api import Api
from slinky.lab.kubernetes.control_plane import ControlPlane
from slinky.lab.kubernetes.node import LabNode, daemons
from slinky.lab.kubernetes.pki import Authority
from slinky.lab.lab_state import LabState
from slinky.lab.machine import network
from slinky.lab.machine.machine import Machine, until
from slinky.lab.machine.network import Network
from slinky.lab.node_kinds import kind_of
from slinky.lab.prepare.golang import release
from slinky.lab.prepare.images import reference
from slinky.lab.slurm.cluster import LabSlurm

log = logging.getLogger(__name__)

#: The daemons whose last log lines show why a node is not ready.
DAEMONS = ("containerd", "kubelet")


class Lab:
    """One lab, by its state file."""

    def __init__(self, state: LabState) -> None:
        self.state = state
        self.folder = state.folder

    @classmethod
    def find(cls, name: str) -> "Lab":
        """The running lab of that name."""
        state = lab_state.load(name)
        if state is None:
            raise LabError(f"there is no lab named {name}", f"create one with `slinky lab up --name {name}`")
        if not state.alive():
            raise LabError(f"lab {name} has crashed", f"remove it with `slinky lab down --name {name}`")
        return cls(state)

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.state.name

    def artifact(self, name: str) -> Path:
        """The path of an artifact that the lab was created with, even if newer ones exist."""
        return Path(self.state.artifacts[name])

    @cached_property
    def control(self) -> Machine:
        """The machine that runs the control plane and the add-ons."""
        return Machine("control", self.folder / "control")

    @cached_property
    def network(self) -> Network:
        """The lab's addresses."""
        if self.state.index is None:
            raise LabError(f"lab {self.name} has no network yet", "wait until `slinky lab up` is done")
        return Network(self.state.index)

    @cached_property
    def plane(self) -> ControlPlane:
        """Where the control plane's parts are."""
        return ControlPlane(
            binaries=self.artifact("programs") / "bin",
            etcd_binary=self.artifact("machine") / "tree/usr/bin/etcd",
            pki=self.folder / "pki",
            data=self.folder / "control",
            configs=self.folder / "config",
            address=self.network.control,
            port=6443,
            etcd_port=2379,
            minor=self.state.minor,
        )

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        if not self.state.has_kubernetes:
            raise LabError(f"lab {self.name} has no Kubernetes", "create one with `slinky lab up --slurm beside`")
        return self.folder / "config" / "admin.kubeconfig"

    @cached_property
    def api(self) -> Api:
        """The API server, as administrator."""
        return Api(self.kubeconfig)

    @cached_property
    def slurm(self) -> LabSlurm:
        """The Slurm beside Kubernetes."""
        if not self.state.has_slurm:
            raise LabError(f"lab {self.name} has no Slurm beside it", "create it with `slinky lab up --slurm beside`")
        return self.beside()

    def beside(self) -> LabSlurm:
        """The Slurm machine, whether it runs yet or not."""
        return LabSlurm(Machine("slurm", self.folder / "slurm"), self.network.slurm, self.state.slurm_nodes)

    @property
    def client_settings(self) -> dict[str, str]:
        """Variables of kubectl and helm: their cluster, and a cache that is removed with the lab."""
        cluster = {"KUBECONFIG": str(self.kubeconfig)} if self.state.has_kubernetes else {}
        return {"KUBECACHEDIR": str(self.folder / "client-cache"), **cluster}

    def kubectl(self, *argv: str, input: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and return what it prints."""
        done = subprocess.run(
            [self.plane.binaries / "kubectl", f"--kubeconfig={self.kubeconfig}", *argv],
            env={**os.environ, **self.client_settings},
            input=input,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if check and done.returncode:
            raise LabError(f"kubectl {' '.join(argv[:5])}: {done.stderr.strip()}")
        return done.stdout

    # Nodes ---------------------------------------------------------------------------------------------------------

    def node(self, number: int) -> LabNode:
        """The description of a node."""
        return kind_of(self.state, number).describe(number, self.network)

    def node_machine(self, name: str) -> Machine:
        """The machine behind a node, which must be one of this lab's."""
        known = {self.node(number).name: number for number in range(1, self.state.nodes + 1)}
        if name not in known:
            raise LabError(f"lab {self.name} has no node {name}", f"choose one of: {', '.join(known)}")
        return kind_of(self.state, known[name]).machine(self.node(known[name]))

    def machines(self) -> list[Machine]:
        """Every machine of the lab."""
        nodes = [self.node_machine(f"node{number}") for number in range(1, self.state.nodes + 1)]
        return [self.control, *([self.slurm.machine] if self.state.has_slurm else []), *nodes]

    def machine(self, name: str) -> Machine:
        """A machine by name."""
        for machine in self.machines():
            if machine.name == name:
                return machine
        known = ", ".join(machine.name for machine in self.machines())
        raise LabError(f"lab {self.name} has no machine {name}", f"choose one of: {known}")

    def boot_node(self, number: int) -> None:
        """Start a node: with the prepared images the first time, later with the disk it had."""
        node, kind = self.node(number), kind_of(self.state, number)
        machine = kind.machine(node)
        self.launch(machine, machine.launch_command(kind.prepare(node)), node.address)
        network.route_pods(self.network, self.control.pid(), number)
        commands = daemons(node)
        machine.start("containerd", commands.pop("containerd"))
        socket = "/run/containerd/containerd.sock"
        until(lambda: machine.has_file(socket), f"containerd on {node.name}", 120, lambda: machine.tail("containerd"))
        for name, argv in commands.items():
            machine.start(name, argv)

    def launch(self, machine: Machine, command: Sequence[str], address: str) -> None:
        """Start a machine below the control machine and connect it to the network."""
        self.control.start(machine.name, command)
        until(machine.alive, f"machine {machine.name}", 120, lambda: self.control.tail(machine.name))
        machine.connect(self.network, self.control.pid(), address)

    def issue_node_certificates(self, authority: Authority, number: int) -> None:
        """Issue the certificates of a node's daemons; the node gets no other keys."""
        node = self.node(number)
        folder = node.folder / "pki"
        folder.mkdir(parents=True, exist_ok=True)
        authority.issue(node.name, f"system:node:{node.name}", "system:nodes")
        authority.issue(f"{node.name}-serving", f"system:node:{node.name}", "system:nodes", [node.name, node.address])
        authority.kubeconfig(folder / "node.kubeconfig", node.name, self.plane.url)
        authority.kubeconfig(folder / "kube-proxy.kubeconfig", "kube-proxy", self.plane.url)
        for name in ("ca.crt", f"{node.name}-serving.crt", f"{node.name}-serving.key"):
            shutil.copy2(self.plane.pki / name, folder / name.replace(f"{node.name}-", ""))

    def crash_node(self, name: str) -> None:
        """Crash a node: its daemons and containers end at once, without a shutdown."""
        self.node_machine(name).kill()
        until(lambda: not self.control.running(name), f"{name} to end", 120)

    def start_node(self, name: str) -> None:
        """Boot a crashed node with the disk it had."""
        if self.node_machine(name).alive():
            raise LabError(f"{name} is running", f"crash it first with `slinky lab node crash {name}`")
        self.boot_node(int(name.removeprefix("node")))

    def cut_node(self, name: str) -> None:
        """Disconnect a node from the network; its daemons keep running."""
        self.node_machine(name)
        network.ip(self.control.pid(), [f"link set {name} down"])

    def heal_node(self, name: str) -> None:
        """Undo `cut_node`."""
        self.node_machine(name)
        network.ip(self.control.pid(), [f"link set {name} up"])

    def nodes(self) -> dict[str, bool]:
        """Every node the API server knows, and whether it is ready."""
        return {node["metadata"]["name"]: _ready(node) for node in self.api.get("/api/v1/nodes")["items"]}

    def wait_ready(self, names: Iterable[str], seconds: float = 240) -> None:
        """Return once these nodes are ready."""
        expected = set(names)

        def late() -> set[str]:
            return expected - {name for name, is_ready in self.nodes().items() if is_ready}

        def ready() -> bool:
            missing = late()
            for machine in real(missing):
                _restart_ended(machine)
            return not missing

        def real(names: set[str]) -> list[Machine]:
            return [machine for machine in self.machines() if machine.name in names]  # others are hollow

        def why() -> str:
            last = (f"{machine.name}, {name}:\n{machine.tail(name)}" for machine in real(late()) for name in DAEMONS)
            return "\n".join((self.kubectl("get", "nodes"), *last))

        until(ready, f"{', '.join(sorted(expected))} to be ready", seconds, why)

    def load_image(self, archive: Path) -> None:
        """Import an image archive into every node."""
        for number in range(1, self.state.nodes + 1):
            machine = self.node_machine(f"node{number}")
            with archive.open("rb") as stream:
                done = subprocess.run(
                    machine.enter_command(["ctr", "-n", "k8s.io", "images", "import", "--local", "-"]),
                    stdin=stream,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode:
                raise LabError(f"importing {archive} on {machine.name}: {done.stderr.strip()}")

    # The control plane ---------------------------------------------------------------------------------------------

    def restart(self, machine: str, daemon: str) -> None:
        """End a daemon with -9 and start it again as it was."""
        self.machine(machine).restart(daemon)

    def wait_api(self, seconds: float = 60) -> None:
        """Return once the API server answers."""
        until(self.api.ready, "the API server", seconds, lambda: self.control.tail("kube-apiserver"))

    def status(self) -> dict[str, Any]:
        """The status of the lab as plain data."""
        machines = {machine.name: machine.status() if machine.alive() else None for machine in self.machines()}
        answer: dict[str, Any] = {
            "name": self.name,
            "state": self.state.phase,
            "age": round(lab_state.age(self.state)),
            "machines": machines,
            "seconds": self.state.seconds,
            "image": reference("busybox"),
        }
        if self.state.has_kubernetes:
            answer["kubernetes"] = {
                "version": release(self.state.minor).version,
                "server": self.plane.url,
                "kubeconfig": str(self.kubeconfig),
                "nodes": self.nodes() if self.api.ready() else None,
            }
        if self.state.has_slurm:
            answer["slurm"] = {"url": self.slurm.url, "hosts": _hosts(self.slurm)}
        return answer


def _restart_ended(machine: Machine) -> None:
    """Restart daemons of a node that have ended, as the init of a real machine would."""
    if not machine.alive():
        return
    for daemon, state in machine.status().items():
        if state["pid"] is None:
            last = machine.tail(daemon, 3)
            log.warning("%s of %s ended with %s and is started again:\n%s", daemon, machine.name, state["exit"], last)
            argv, env, uid = machine.command(daemon)
            machine.start(daemon, argv, env, uid)


def _ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _hosts(slurm: LabSlurm) -> dict[str, str] | None:
    try:
        lines = slurm.exec("sinfo", "-h", "-N", "-o", "%N %T", "-p", "all").splitlines()
    except LabError:
        return None
    return dict(line.split(" ", 1) for line in lines)
