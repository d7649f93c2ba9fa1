# SPDX-License-Identifier: Apache-2.0
"""`slinky lab`: a real Kubernetes and a real Slurm on this machine."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from slinky.cli.output import Format, explained, print_json, print_table
from slinky.lab import bringup, lab_state, preflight
from slinky.lab.errors import LabError
from slinky.lab.lab import Lab
from slinky.lab.machine.machine import PATH
from slinky.lab.prepare import archive, tools
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

_STYLE: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(help="A real Kubernetes and a real Slurm on this machine.", **_STYLE)
node = typer.Typer(help="Break and repair nodes.", **_STYLE)
app.add_typer(node, name="node")

Name = Annotated[str, typer.Option("--name", "-n", help="Name of the lab.", envvar="SLINKY_LAB")]
Output = Annotated[Format, typer.Option("-o", "--output", help="Output format: text or json.")]
NodeName = Annotated[str, typer.Argument(help="Name of the node, such as node1.")]


@app.command()
def prepare(
    kube: Annotated[str, typer.Option(help="Kubernetes minor version.")] = "1.36",
    vms: Annotated[bool, typer.Option(help="Also prepare what nodes in virtual machines need.")] = False,
    earlier: Annotated[bool, typer.Option(help="Also prepare images of an earlier Slurm, for upgrade tests.")] = False,
    api_server: Annotated[
        list[str] | None,
        typer.Option(help="Also build the API server of another Kubernetes minor version, for `make compat`."),
    ] = None,
    prune: Annotated[bool, typer.Option(help="Also remove outdated artifacts from the cache.")] = False,
    export_file: Annotated[
        Path | None, typer.Option("--export", help="Write the artifacts to this file (.tar, .tar.gz or .tar.zst).")
    ] = None,
    import_file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Read artifacts that another machine exported, then build the rest. Use only files that you trust.",
        ),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Build and download everything that a lab needs; later runs only verify it."""
    with explained(LabError):
        inventory, progress = ArtifactInventory.of(kube), Progress()
        servers = api_server or ()
        if import_file:
            tools.require_root("importing artifacts")
            known = inventory.every_artifact().values()
            new = archive.import_artifacts(inventory.store, known, import_file, progress)
            progress.note(f"{len(new)} parts are new")
        gigabytes = inventory.gigabytes_to_build(vms=vms, earlier=earlier, api_servers=servers)
        preflight.refuse(preflight.judge(preflight.gather(gigabytes, int(vms))))
        inventory.prepare(progress, vms=vms, earlier=earlier, api_servers=servers)
        selected = inventory.selected(vms=vms, earlier=earlier, api_servers=servers)
        if export_file:
            archive.export_artifacts(inventory.store, selected.values(), export_file, progress)
        removed = inventory.store.prune(inventory.every_artifact().values()) if prune else []
        facts = {name: inventory.store.facts(artifact) for name, artifact in selected.items()}
        if output is Format.JSON:
            print_json({"cache": str(inventory.store.folder), "artifacts": facts, "removed": [str(p) for p in removed]})
            return
        rows = [(name, ", ".join(f"{key} {value}" for key, value in values.items())) for name, values in facts.items()]
        print_table(("ARTIFACT", "CONTENT"), rows)


@app.command()
def check(
    kube: Annotated[str, typer.Option(help="Kubernetes minor version.")] = "1.36",
    vms: Annotated[int, typer.Option(help="Number of nodes in virtual machines to check for.")] = 0,
    output: Output = Format.TEXT,
) -> None:
    """Show whether this machine can run a lab; exit code 1 if something is missing. Nothing is changed."""
    with explained(LabError):
        gigabytes = ArtifactInventory.of(kube).gigabytes_to_build(vms=bool(vms))
        items = preflight.judge(preflight.gather(gigabytes, vms))
    if output is Format.JSON:
        print_json([dataclasses.asdict(item) for item in items])
    else:
        print_table(
            ("REQUIREMENT", "VERDICT", "FOUND", "NEXT STEP"),
            [(item.name, item.verdict, item.found, item.next_step) for item in items],
        )
    if any(item.verdict is preflight.Verdict.MISSING for item in items):
        raise typer.Exit(1)


@app.command()
def up(
    name: Name = "lab",
    nodes: Annotated[int, typer.Option(help="Real nodes, each with its own kubelet and containerd.")] = 2,
    vms: Annotated[
        int, typer.Option(help="Nodes in virtual machines, with a kernel of their own and cgroup version 2 only.")
    ] = 0,
    vm_cgroup_driver: Annotated[
        str, typer.Option(help="Cgroup driver of the kubelet and containerd in virtual machines: systemd or cgroupfs.")
    ] = "systemd",
    gpus: Annotated[int, typer.Option(help="Fake GPUs on each node.")] = 4,
    hollow: Annotated[int, typer.Option(help="Simulated nodes without a kubelet, for tests of scale.")] = 0,
    kube: Annotated[str, typer.Option(help="Kubernetes minor version.")] = "1.36",
    slurm: Annotated[
        str, typer.Option(help="none, beside: a complete Slurm next to Kubernetes, or alone: without Kubernetes.")
    ] = "none",
    slurm_nodes: Annotated[int, typer.Option(help="Number of slurmd of the Slurm beside Kubernetes.")] = 2,
    external_nodes: Annotated[int, typer.Option(help="Number of external nodes of the Slurm beside Kubernetes.")] = 0,
    owner: Annotated[int | None, typer.Option(help="Id of a process; the lab ends when it ends.", hidden=True)] = None,
    output: Output = Format.TEXT,
) -> None:
    """Create a lab and wait until it is ready."""
    options = bringup.LabOptions(
        name=name,
        nodes=nodes,
        vms=vms,
        vm_cgroup_driver=vm_cgroup_driver,
        gpus=gpus,
        hollow=hollow,
        minor=kube,
        slurm=slurm,
        slurm_nodes=slurm_nodes,
        external_nodes=external_nodes,
        owner=owner,
    )
    with explained(LabError):
        lab = bringup.up(options, Progress())
        _show(lab, output)
        if output is Format.TEXT and lab.state.has_kubernetes:
            typer.echo(f"\nexport KUBECONFIG={lab.kubeconfig}")


@app.command()
def down(name: Name = "lab", output: Output = Format.TEXT) -> None:
    """Remove a lab completely, even if it has crashed."""
    with explained(LabError):
        existed = bringup.down(name)
        if output is Format.JSON:
            print_json({"name": name, "removed": existed})
        else:
            typer.echo(f"lab {name} is removed" if existed else f"there is no lab named {name}; nothing to do")


@app.command("list")
def list_labs(output: Output = Format.TEXT) -> None:
    """List every lab on this machine."""
    with explained(LabError):
        labs = [lab for name in lab_state.names() if (lab := lab_state.load(name))]
        rows = [
            {"name": lab.name, "state": lab.phase if lab.alive() else "crashed", "nodes": lab.nodes, "slurm": lab.slurm}
            for lab in labs
        ]
        if output is Format.JSON:
            print_json(rows)
        else:
            print_table(("NAME", "STATE", "NODES", "SLURM"), [[str(value) for value in row.values()] for row in rows])


@app.command()
def status(name: Name = "lab", output: Output = Format.TEXT) -> None:
    """Show the machines and daemons of a lab; exit code 1 if one is not running."""
    with explained(LabError):
        healthy = _show(Lab.find(name), output)
    if not healthy:
        raise typer.Exit(1)


@app.command()
def kubeconfig(
    name: Name = "lab",
    path: Annotated[bool, typer.Option(help="Print the path of the file instead of its content.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Print the administrator's kubeconfig."""
    with explained(LabError):
        file = Lab.find(name).kubeconfig
        if output is Format.JSON:
            print_json({"path": str(file), "content": file.read_text()})
        else:
            typer.echo(str(file) if path else file.read_text(), nl=path)


@app.command()
def logs(
    machine: Annotated[str, typer.Argument(help="Name of the machine: control, slurm, node1, ...")],
    daemon: Annotated[
        str | None,
        typer.Argument(help="Name of the daemon, such as kubelet; without it, the names of all logs are listed."),
    ] = None,
    name: Name = "lab",
    tail: Annotated[int, typer.Option(help="Number of lines from the end.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Print the log of a daemon."""
    with explained(LabError):
        target = Lab.find(name).machine(machine)
        known = sorted(file.stem for file in target.logs.glob("*.log"))
        if daemon is None:
            print_json(known) if output is Format.JSON else typer.echo("\n".join(known))
            return
        if daemon not in known:
            raise LabError(f"machine {machine} has no log of {daemon}", f"choose one of: {', '.join(known)}")
        file = target.logs / f"{daemon}.log"
        if output is Format.JSON:
            print_json(file.read_text(errors="replace").splitlines()[-tail:])
            return
        subprocess.run(["tail", f"--lines={tail}", *(["--follow"] if follow else []), str(file)], check=False)


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    machine: Annotated[str, typer.Argument(help="Name of the machine: control, slurm, node1, ...")],
    command: Annotated[list[str], typer.Argument(help="Command to run; its exit code is returned.")],
    name: Name = "lab",
) -> None:
    """Run a command inside a machine, for example `slinky lab exec slurm sinfo`.

    The machine `control` has kubectl, helm and the files of this host, and keeps the working directory.
    """
    with explained(LabError):
        lab = Lab.find(name)
        target = lab.machine(machine)
        shares_files = target.name == "control"
        path = f"{_tools(lab)}:{PATH}" if shares_files else PATH
        env = {"PATH": path, "HOME": "/root", "TERM": "xterm", **lab.client_settings}
        argv = target.enter_command(command, Path.cwd() if shares_files else None, env)
        done = subprocess.run(argv, check=False)
    raise typer.Exit(done.returncode)


@app.command()
def shell(name: Name = "lab") -> None:
    """Start a shell on this host with slinky and the lab's kubectl, helm and kubeconfig; returns its exit code."""
    with explained(LabError):
        lab = Lab.find(name)
        own = Path(sys.executable).parent
        env = {
            **os.environ,
            **lab.client_settings,
            "PATH": f"{_tools(lab)}:{own}:{os.environ.get('PATH', PATH)}",
            "SLINKY_LAB": lab.state.name,
        }
        program = os.environ.get("SHELL") or "/bin/sh"
        typer.echo(f"kubectl, helm and slinky use the lab {lab.state.name}; leave with `exit`", err=True)
        done = subprocess.run([program], env=env, check=False)
    raise typer.Exit(done.returncode)


def _tools(lab: Lab) -> str:
    """The folders of kubectl and helm, of the versions that fit the lab."""
    return f"{lab.plane.binaries}:{lab.artifact('helm')}"


@app.command()
def load(
    archive: Annotated[Path, typer.Argument(help="OCI or Docker image archive (tar).", exists=True, dir_okay=False)],
    name: Name = "lab",
) -> None:
    """Import an image archive into every node."""
    with explained(LabError):
        Lab.find(name).load_image(archive)


@app.command()
def restart(
    machine: Annotated[str, typer.Argument(help="Name of the machine: control, slurm, node1, ...")],
    daemon: Annotated[str, typer.Argument(help="Name of the daemon, such as kube-apiserver.")],
    name: Name = "lab",
) -> None:
    """Kill a daemon (SIGKILL) and start it again."""
    with explained(LabError):
        Lab.find(name).restart(machine, daemon)


@node.command()
def crash(node_name: NodeName, name: Name = "lab") -> None:
    """Crash a node: all of its processes end at once, without a shutdown."""
    with explained(LabError):
        Lab.find(name).crash_node(node_name)


@node.command()
def start(node_name: NodeName, name: Name = "lab") -> None:
    """Start a crashed node again."""
    with explained(LabError):
        Lab.find(name).start_node(node_name)


@node.command()
def cut(node_name: NodeName, name: Name = "lab") -> None:
    """Disconnect a node from the network; it keeps running."""
    with explained(LabError):
        Lab.find(name).cut_node(node_name)


@node.command()
def heal(node_name: NodeName, name: Name = "lab") -> None:
    """Reconnect a node to the network."""
    with explained(LabError):
        Lab.find(name).heal_node(node_name)


def _show(lab: Lab, output: Format) -> bool:
    status = lab.status()
    healthy = _healthy(status)
    if output is Format.JSON:
        print_json({**status, "healthy": healthy})
        return healthy
    rows = []
    for machine, daemons in status["machines"].items():
        for daemon, state in (daemons or {}).items():
            rows.append((machine, daemon, "running" if state["pid"] else f"ended ({state['exit']})"))
        if daemons is None:
            rows.append((machine, "-", "down"))
    print_table(("MACHINE", "DAEMON", "STATE"), rows)
    nodes = status.get("kubernetes", {}).get("nodes") or {}
    states = {name: "Ready" if ready else "NotReady" for name, ready in nodes.items()}
    hosts = status.get("slurm", {}).get("hosts") or {}
    typer.echo()
    print_table(
        ("KIND", "NAME", "STATE"), [("node", *item) for item in states.items()] + [("host", *i) for i in hosts.items()]
    )
    typer.echo()
    if "kubernetes" in status:
        typer.echo(f"Kubernetes {status['kubernetes']['version']} at {status['kubernetes']['server']}")
    if "slurm" in status:
        typer.echo(f"Slurm REST at {status['slurm']['url']}")
    for part, seconds in status["seconds"].items():
        typer.echo(f"  {part}: {seconds:.1f} s")
    return healthy


def _healthy(status: dict[str, Any]) -> bool:
    running = all(
        daemons and all(state["pid"] for state in daemons.values()) for daemons in status["machines"].values()
    )
    nodes = status["kubernetes"]["nodes"] if "kubernetes" in status else {}
    return running and nodes is not None and all(nodes.values())
