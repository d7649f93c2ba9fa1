# SPDX-License-Identifier: Apache-2.0
"""The `slinky` command, which kubectl finds as `kubectl slinky`; every verb is a module of this package."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import typer

from slinky import __version__
from slinky.cli.lazy_group import LazyGroup

_CLUSTER = "slinky.cli.cluster"
_PODS = "slinky.cli.pods"


class SlinkyGroup(LazyGroup):
    """The verbs of `slinky`: those for people first."""

    table: ClassVar[Mapping[str, tuple[str, str]]] = {
        "explain": (f"{_CLUSTER}.explain", "Say why a job waits, or what a node does, and what to do next."),
        "forecast": (f"{_CLUSTER}.forecast", "Say when pending jobs are expected to start."),
        "whatif": (f"{_CLUSTER}.whatif", "Say what would start earlier or later after a change."),
        "queue": (f"{_CLUSTER}.queue", "List jobs, with the expected start of those that wait."),
        "nodes": (f"{_CLUSTER}.nodes", "List nodes, with what is free and who drained them."),
        "top": ("slinky.cli.live.top", "Show jobs, their pods and nodes in a terminal, and follow them."),
        "status": (f"{_CLUSTER}.status", "Summarize a Slurm cluster."),
        "logs": (f"{_PODS}.logs", "Print what a job or a pod has written."),
        "shell": (f"{_PODS}.shell", "Open a shell in a login pod."),
        "version": (f"{_CLUSTER}.version", "Print the versions of this command, of Slurm and of Kubernetes."),
        "hold": (f"{_CLUSTER}.job_actions", "Hold pending jobs."),
        "release": (f"{_CLUSTER}.job_actions", "Release held jobs."),
        "cancel": (f"{_CLUSTER}.job_actions", "Cancel jobs."),
        "drain": (f"{_CLUSTER}.drain", "Drain nodes, with a reason."),
        "undrain": (f"{_CLUSTER}.drain", "Let jobs start on drained nodes again."),
        "doctor": ("slinky.cli.doctor.doctor", "Check a Slurm cluster and its Kubernetes, each finding with its fix."),
        "gather": ("slinky.cli.bundle.gather", "Write a support bundle of a cluster, without its secrets."),
        "convert": ("slinky.cli.conversion.convert", "Convert a slurm.conf or values of slurm-operator to our values."),
        "operator": ("slinky.cli.serve", "Run Slurm clusters on Kubernetes."),
        "webhook": ("slinky.cli.serve", "Validate and default the operator's kinds when they are created or changed."),
        "bridge": ("slinky.cli.serve", "Schedule selected pods with Slurm."),
        "bridge-admission": ("slinky.cli.serve", "Validate the options of pods that Slurm schedules."),
        "exporter": ("slinky.cli.serve", "Export metrics of a Slurm cluster to Prometheus."),
        "web": ("slinky.cli.serve", "Show a Slurm cluster in a browser, read-only."),
        "tls-proxy": ("slinky.cli.tls_proxy", "Terminate TLS in front of slurmrestd."),
        "lab": ("slinky.cli.lab", "A real Kubernetes and a real Slurm on this machine."),
        "demo": ("slinky.cli.demo", "Create a Kubernetes with a Slurm cluster, and run pods and an sbatch job."),
    }


app = typer.Typer(
    name="slinky",
    cls=SlinkyGroup,
    help="Slurm and Kubernetes as one system.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slinky {__version__}")
        raise typer.Exit


@app.callback()
def slinky(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_version, is_eager=True),
) -> None:
    """Slurm and Kubernetes as one system."""


def run() -> None:
    """The entry point; kubectl starts a plugin by the name `kubectl-slinky`."""
    is_plugin = Path(sys.argv[0]).name.startswith("kubectl")
    app(prog_name="kubectl slinky" if is_plugin else "slinky", complete_var="_SLINKY_COMPLETE")
