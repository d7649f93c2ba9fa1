# SPDX-License-Identifier: Apache-2.0
"""Creates and removes labs.

While `up` runs, the lab belongs to the calling process: if that process is killed, the janitor removes the lab. A
completed lab stays until `down` or, with `owner`, until that process ends.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

import yaml

from slinky.lab import lab_state, paths, preflight
from slinky.lab.errors import LabError
from slinky.lab.kubernetes import addons, control_plane, pki
from slinky.lab.kubernetes.api import Api
from slinky.lab.lab import Lab
from slinky.lab.lab_state import CgroupDriver, LabState, SlurmPlace, locked
from slinky.lab.machine import cgroups, inotify, network, virtual_machine
from slinky.lab.machine.janitor import CLAIM, SETTLED, clear
from slinky.lab.machine.machine import until
from slinky.lab.prepare import golang, tools
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

MOST_NODES = 100
MOST_VMS = 16


@dataclass(frozen=True)
class LabOptions:
    """Options of a lab."""

    name: str = "lab"
    nodes: int = 2
    vms: int = 0
    vm_cgroup_driver: str = "systemd"
    gpus: int = 4
    hollow: int = 0
    minor: str = "1.36"
    slurm: str = "none"
    slurm_nodes: int = 2
    external_nodes: int = 0
    owner: int | None = None

    def check(self) -> None:
        """Reject invalid options before anything is changed."""
        paths.checked_name(self.name)
        golang.release(self.minor)
        if self.slurm not in get_args(SlurmPlace):
            raise LabError(f"--slurm {self.slurm} is not known", "choose none, beside or alone")
        if self.slurm == "alone" and self.nodes + self.vms + self.hollow:
            raise LabError("--slurm alone has no Kubernetes that nodes could join", "add --nodes 0, or use beside")
        if self.vm_cgroup_driver not in get_args(CgroupDriver):
            raise LabError(f"--vm-cgroup-driver {self.vm_cgroup_driver} is not known", "choose systemd or cgroupfs")
        if self.nodes + self.vms > MOST_NODES:
            raise LabError(f"--nodes and --vms are {self.nodes + self.vms} together, which is more than {MOST_NODES}")
        limits = {
            "nodes": MOST_NODES,
            "vms": MOST_VMS,
            "hollow": 20000,
            "slurm_nodes": 64,
            "external_nodes": 999,
            "gpus": 64,
        }
        for name, most in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise LabError(f"--{name.replace('_', '-')} is {value}, which is not between 0 and {most}")
        if self.external_nodes and self.slurm == "none":
            raise LabError("--external-nodes needs a Slurm", "add --slurm beside")


def up(options: LabOptions, progress: Progress) -> Lab:
    """Create a lab and return it once everything in it is ready."""
    options.check()
    tools.require_root("a lab")
    with locked(options.name):
        _make_way(options.name)
        inventory = ArtifactInventory.of(options.minor)
        virtual = bool(options.vms)
        facts = preflight.gather(inventory.gigabytes_to_build(vms=virtual), options.vms)
        preflight.refuse(preflight.judge(facts))
        inventory.prepare(progress, vms=virtual)
        lab = _begin(options, inventory.paths(vms=virtual))
        try:
            _assemble(lab, progress)
            lab.state.phase = "up"
            lab.state.seconds = dict(progress.seconds)
            lab.state.save()
        except BaseException:
            end(lab.state)
            raise
        if options.owner is None:
            os.kill(lab.state.janitor, SETTLED)
    return lab


def down(name: str) -> bool:
    """Remove a lab, running or crashed; false if there was none."""
    tools.require_root("taking a lab down")
    with locked(name):
        if not (paths.labs() / name).exists():
            cgroups.remove(cgroups.branch(name))
            return False
        try:
            state = lab_state.load(name)
        except LabError:
            state = None
        if state:
            end(state)
        else:
            clear(paths.labs() / name)
    return True


def end(state: LabState) -> None:
    """Let the janitor remove the lab, or remove it here if the janitor is gone."""
    if state.alive():
        os.kill(state.janitor, signal.SIGTERM)
        until(lambda: not state.alive(), f"lab {state.name} to end", 120)
    with contextlib.suppress(ChildProcessError):  # the janitor is our child only if `up` ran in this process
        os.waitpid(state.janitor, os.WNOHANG)
    clear(state.folder)


def _make_way(name: str) -> None:
    try:
        state = lab_state.load(name)
    except LabError:
        state = None
    if state and state.alive():
        raise LabError(
            f"lab {name} already exists ({state.phase}, {state.nodes} nodes)",
            f"inspect it with `slinky lab status --name {name}`, or remove it with `slinky lab down --name {name}`",
        )
    if (paths.labs() / name).exists():
        clear(paths.labs() / name)


def _begin(options: LabOptions, artifacts: dict[str, str]) -> Lab:
    folder = paths.labs() / options.name
    folder.mkdir(parents=True, mode=0o700)
    inotify.raise_limit(folder)
    janitor = _spawn_janitor(folder, options.owner or os.getpid())
    state = LabState(
        name=options.name,
        minor=options.minor,
        created=time.time(),
        janitor=janitor,
        nodes=options.nodes + options.vms,
        vms=options.vms,
        vm_cgroup_driver="cgroupfs" if options.vm_cgroup_driver == "cgroupfs" else "systemd",
        gpus=options.gpus,
        hollow=options.hollow,
        slurm=cast(SlurmPlace, options.slurm),
        slurm_nodes=options.slurm_nodes,
        external_nodes=options.external_nodes,
        artifacts=artifacts,
    )
    state.save()
    return Lab(state)


def _spawn_janitor(folder: Path, owner: int) -> int:
    """Start the janitor in its own session, so that Ctrl-C reaches the command and not the lab."""
    argv = [sys.executable, "-P", "-m", "slinky.lab.machine.janitor", str(folder), str(owner)]
    log = os.open(folder / "janitor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        redirect = [(os.POSIX_SPAWN_DUP2, log, target) for target in (1, 2)]
        quiet = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        return os.posix_spawn(sys.executable, argv, os.environ, file_actions=[quiet, *redirect], setsid=True)
    finally:
        os.close(log)


def _assemble(lab: Lab, progress: Progress) -> None:
    """Start the parts in order: the network, then Slurm and Kubernetes in parallel, then nodes and add-ons."""
    lab.control.wait_alive()
    state = lab.state
    state.index = network.claim(lab.control.pid(), lab.folder / CLAIM).index
    state.save()
    if state.vms:
        with progress.task("choosing the accelerator of virtual machines"):
            state.vm_accelerator = virtual_machine.choose_accelerator(lab.artifact("vm-tree") / "tree")
        state.save()
    authority = _certificates(lab)
    with ThreadPoolExecutor() as pool:
        try:
            _assemble_parts(lab, pool, authority, progress)
        except BaseException:
            # Without machines every other part fails at once instead of waiting for its deadline.
            end(state)
            raise
    if state.hollow:
        with progress.task(f"{state.hollow} hollow nodes"):
            addons.add_hollow_nodes(lab, state.hollow)


def _assemble_parts(lab: Lab, pool: ThreadPoolExecutor, authority: pki.Authority, progress: Progress) -> None:
    state = lab.state
    waiting: list[Future[None]] = []

    def start(name: str, part: Callable[[], None]) -> Future[None]:
        waiting.append(pool.submit(_timed, progress, name, part))
        return waiting[-1]

    if state.has_slurm:
        start("Slurm", lambda: _slurm(lab))
    if state.has_kubernetes:
        start("control plane", lambda: _control_plane(lab)).result()
        if state.nodes:
            start(f"{state.nodes} nodes", lambda: _nodes(lab, pool, authority))
        start("add-ons", lambda: addons.start(lab))
    for part in as_completed(waiting):
        part.result()


def _timed(progress: Progress, name: str, part: Callable[[], None]) -> None:
    with progress.task(name):
        part()


def _certificates(lab: Lab) -> pki.Authority:
    plane = lab.plane
    for folder in (plane.pki, plane.configs):
        folder.mkdir(mode=0o700)
    pki.service_account_keys(plane.pki)
    authority = pki.Authority(plane.pki, "ca")
    pki.Authority(plane.pki, "front-proxy-ca").issue("front-proxy-client", "front-proxy-client")
    authority.issue("apiserver", "kube-apiserver", hosts=plane.server_hosts)
    authority.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.issue("admin", "kubernetes-admin", "system:masters")
    authority.issue("webhooks", "slinky-lab-webhooks", hosts=[plane.address])
    authority.issue("kube-proxy", "system:kube-proxy")
    for name in ("controller-manager", "scheduler"):
        authority.issue(name, f"system:kube-{name}")
    for name in ("admin", "controller-manager", "scheduler"):
        authority.kubeconfig(plane.kubeconfig(name), name, plane.url)
    return authority


def _control_plane(lab: Lab) -> None:
    """Start the control plane and wait until pods can be created, which needs the default service account."""
    plane, machine = lab.plane, lab.control
    machine.start("etcd", control_plane.etcd(plane), control_plane.ENVIRONMENT)
    machine.start("kube-apiserver", control_plane.apiserver(plane, nodes=True), control_plane.ENVIRONMENT)
    (plane.configs / "scheduler.yaml").write_text(yaml.safe_dump(control_plane.scheduler_config(plane)))
    until(lambda: _alive_and(lab, "kube-apiserver", lab.api.ready), "the API server", 240)
    # An emulated processor may need more than ten seconds for a lease.
    grace = 60 if lab.state.vms else 12
    machine.start(
        "kube-controller-manager",
        control_plane.controller_manager(plane, lab.network.pods, grace),
        control_plane.ENVIRONMENT,
    )
    machine.start("kube-scheduler", control_plane.scheduler(plane), control_plane.ENVIRONMENT)
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until(lambda: _alive_and(lab, "kube-controller-manager", lambda: _exists(lab.api, account)), account, 180)


def _alive_and(lab: Lab, daemon: str, fact: Callable[[], bool]) -> bool:
    lab.control.require(daemon)
    return fact()


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except LabError:
        return False
    return True


def _nodes(lab: Lab, pool: ThreadPoolExecutor, authority: pki.Authority) -> None:
    numbers = range(1, lab.state.nodes + 1)
    for number in numbers:
        lab.issue_node_certificates(authority, number)
    list(pool.map(lab.boot_node, numbers))
    lab.wait_ready((lab.node(number).name for number in numbers), seconds=600 if lab.state.vms else 240)


def _slurm(lab: Lab) -> None:
    slurm = lab.beside()
    tree = lab.artifact("tree-lab-slurm") / "tree"
    lab.launch(slurm.machine, slurm.machine.launch_command(slurm.root(tree)), slurm.address)
    slurm.up()
    if lab.state.external_nodes:
        slurm.add_external_nodes(lab.state.external_nodes, gpus=8)
