# SPDX-License-Identifier: Apache-2.0
"""The `slinky` command; every verb is a module of this package."""

import typer

from slinky import __version__
from slinky.cli import demo, lab, serve

app = typer.Typer(
    name="slinky",
    help="Slurm and Kubernetes as one system.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(lab.app, name="lab")
app.command()(demo.demo)
serve.mount(app)


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
    """The entry point."""
    app()
