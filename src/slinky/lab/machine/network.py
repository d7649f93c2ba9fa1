# SPDX-License-Identifier: Apache-2.0
"""Addresses and links of a lab.

Each lab has a unique index and with it its own network. A bridge in the control plane's namespace connects the nodes
and Slurm; a veth pair connects the host, which reaches every address inside, pods included. Links, addresses and
routes end with the namespaces. Nothing is forwarded to the outside.
"""

import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slinky.lab.errors import LabError

INDEXES = range(100)
SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"

#: The cards of a guest: one on the lab's network, one for commands of the lab's host, which exists in each machine.
GUEST_TAPS = ("tap0", "management")
MANAGEMENT_HOST = "169.254.77.1"
MANAGEMENT_GUEST = "169.254.77.2"


@dataclass(frozen=True)
class Network:
    """The address plan of lab number `index`."""

    index: int

    @property
    def prefix(self) -> str:
        """The network of the machines."""
        return f"10.66.{self.index}.0/24"

    @property
    def control(self) -> str:
        """The control plane, and the router between machines."""
        return f"10.66.{self.index}.1"

    @property
    def slurm(self) -> str:
        """The Slurm machine."""
        return f"10.66.{self.index}.2"

    @property
    def host(self) -> str:
        """The host's own address in this network."""
        return f"10.66.{self.index}.254"

    @property
    def link(self) -> str:
        """The host's end of the veth pair."""
        return f"slinky{self.index}"

    @property
    def pods(self) -> str:
        """The addresses of all pods."""
        return f"10.{128 + self.index}.0.0/16"

    def node(self, number: int) -> str:
        """A node's address."""
        return f"10.66.{self.index}.{10 + number}"

    def node_pods(self, number: int) -> str:
        """The addresses of the pods on one node."""
        return f"10.{128 + self.index}.{number}.0/24"


def claim(control: int, record: Path) -> Network:
    """Connect the host with the namespace of process `control`, in the first network that nothing uses.

    Writes to `record` what `release` needs.
    """
    for index in INDEXES:
        network = Network(index)
        if _routed(network.prefix) or _routed(network.pods):
            continue
        # Adding the link claims the index: of two labs that start at once, only one succeeds.
        added = subprocess.run(
            ["ip", "link", "add", network.link, "type", "veth", "peer", "name", "uplink", "netns", str(control)],
            capture_output=True,
            text=True,
            check=False,
        )
        if added.returncode == 0:
            _join(network, control)
            record.write_text(f"{network.index} {_interface_number(network.link)}")
            return network
        if "exists" not in added.stderr:
            raise LabError(f"cannot create a network link: {added.stderr.strip()}", "check that veth links are allowed")
    raise LabError(f"all {len(INDEXES)} lab networks are in use", "remove a lab; `slinky lab list` shows them")


def attach(network: Network, control: int, machine: int, name: str, address: str) -> None:
    """Connect the namespace of process `machine` to the lab's bridge."""
    _remove_link(control, name)
    ip(control, [f"link add {name} type veth peer name eth0 netns {machine}", f"link set {name} master bridge up"])
    ip(
        machine,
        [
            "link set lo up",
            f"addr add {address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {network.control}",
        ],
    )
    _forward(machine)


def attach_guest(control: int, machine: int, name: str) -> None:
    """Bridge the cards of a guest, whose QEMU runs in the namespace of `machine`, to the lab's bridge."""
    _remove_link(control, name)
    ip(control, [f"link add {name} type veth peer name eth0 netns {machine}", f"link set {name} master bridge up"])
    lab, management = GUEST_TAPS
    ip(
        machine,
        [
            "link set lo up",
            "link add bridge type bridge",
            *(f"tuntap add dev {tap} mode tap" for tap in GUEST_TAPS),
            *(f"link set {port} master bridge up" for port in ("eth0", lab)),
            "link set bridge up",
            f"addr add {MANAGEMENT_HOST}/30 dev {management}",
            f"link set {management} up",
        ],
    )


def guest_commands(network: Network, address: str) -> str:
    """The `ip` commands that configure the cards of a guest."""
    return "\n".join(
        (
            "link set lo up",
            f"addr add {MANAGEMENT_GUEST}/30 dev eth1",
            "link set eth1 up",
            f"addr add {address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {network.control}",
            "",
        )
    )


def _remove_link(control: int, name: str) -> None:
    """Remove the link of a machine that has crashed: the kernel may take a moment to remove its namespace."""
    remove = ["nsenter", f"--target={control}", "--net", "ip", "link", "delete", name]
    subprocess.run(remove, capture_output=True, check=False)


def route_pods(network: Network, control: int, number: int) -> None:
    """Route a node's pod addresses to that node."""
    ip(control, [f"route replace {network.node_pods(number)} via {network.node(number)}"])


def ip(pid: int, commands: Iterable[str]) -> None:
    """Run `ip` commands in the network namespace of a process."""
    done = subprocess.run(
        ["nsenter", f"--target={pid}", "--net", "ip", "-batch", "-"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"ip: {done.stderr.strip()}")


def release(record: Path) -> None:
    """Remove the host's end of the link that `claim` has recorded, if it still exists.

    The link ends with the namespace of the lab, and another lab may have claimed the same index since. The kernel does
    not reuse the numbers of interfaces, so the number tells whether the link is still that of this lab.
    """
    index, number = map(int, record.read_text().split())
    link = Network(index).link
    if _interface_number(link) == number:
        subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)


def _interface_number(link: str) -> int | None:
    """The number by which the kernel knows a link of the host; none if there is no such link."""
    try:
        return socket.if_nametoindex(link)
    except OSError:
        return None


def _join(network: Network, control: int) -> None:
    subprocess.run(
        ["ip", "-batch", "-"],
        input=f"addr add {network.host}/24 dev {network.link}\nlink set {network.link} up\n"
        f"route add {network.pods} via {network.control} dev {network.link} onlink\n",
        text=True,
        check=True,
    )
    ip(
        control,
        [
            "link set lo up",
            # A fixed address; otherwise the bridge uses the address of a port and changes it when a node leaves.
            f"link add bridge address 02:00:0a:42:{network.index:02x}:01 type bridge",
            f"addr add {network.control}/24 dev bridge",
            "link set bridge up",
            "link set uplink master bridge up",
            f"route add default via {network.host}",
        ],
    )
    _forward(control)


def _forward(pid: int) -> None:
    """Enable forwarding in the namespace; the host's setting is not changed."""
    sysctls = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
    subprocess.run(["nsenter", f"--target={pid}", "--net", "sysctl", "-qw", *sysctls], check=True)


def _routed(prefix: str) -> bool:
    listed = subprocess.run(["ip", "-4", "route", "show", "root", prefix], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip())
