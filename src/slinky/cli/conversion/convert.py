# SPDX-License-Identifier: Apache-2.0
"""`slinky convert`: a slurm.conf, or values of slurm-operator's charts, as values of our charts, with a diff."""

import difflib
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from slinky.cli.cluster.command import EXIT_CODES, CommandError, ExitStatus, fail
from slinky.cli.cluster.output import Output, OutputFormat, print_document
from slinky.cli.conversion.chart_values import convert_values
from slinky.cli.conversion.result import Conversion
from slinky.cli.conversion.slurm_conf import convert_slurm_conf
from slinky.insight.plain_text import counted, plain
from slinky.slurm.conf.text import ConfError

#: Bytes of a file at most.
FILE_BYTES = 4 * 2**20
COMPANIONS = (
    "gres.conf", "cgroup.conf", "topology.conf", "topology.yaml", "job_container.conf", "acct_gather.conf", "mpi.conf",
    "oci.conf", "job_submit.lua",
)  # fmt: skip

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)


@app.command(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
def convert(
    file: Annotated[str, typer.Argument(help="A slurm.conf, or a YAML file with values of slurm-operator's charts.")],
    write: Annotated[str, typer.Option("--write", "-w", help="File for the values; by default they are printed.")] = "",
    release: Annotated[
        str, typer.Option(help="Name of the Helm release, of which names of keys are derived.")
    ] = "slurm",
    diff: Annotated[bool, typer.Option("--diff/--no-diff", help="Also print what changes.")] = True,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Convert a slurm.conf, or values of slurm-operator's charts, to values of our charts.

    The values go to standard output. A diff, what was not taken and why, and what is left to do go to standard error;
    `-o json` prints all of them as one document, `-o yaml` only the values, `-o name` only what was not taken. No
    cluster is asked or changed.
    """
    try:
        text = read_file(Path(file))
        conversion = convert_text(text, Path(file), release)
    except CommandError as error:
        fail(str(error), error.status)
        return
    values = yaml.safe_dump(conversion.values, sort_keys=False, allow_unicode=False)
    if write:
        _write(Path(write), values)
    if output is OutputFormat.JSON:
        print_document(describe(conversion), output)
    elif output is OutputFormat.NAME:
        for untaken in conversion.untaken:
            typer.echo(plain(untaken.name, 400))
    else:
        if not write:
            typer.echo(values, nl=False)
        if output is not OutputFormat.YAML:
            _explain(conversion, text, with_diff=diff)


def read_file(path: Path) -> str:
    """The text of a file of a bounded size. Raises `CommandError`."""
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", ExitStatus.NOT_FOUND) from error
    if len(content) > FILE_BYTES:
        raise CommandError(f"{path} has more than {FILE_BYTES} bytes")
    return content.decode(errors="replace")


def convert_text(text: str, path: Path, release: str) -> Conversion:
    """Convert the text of a file by its name: `.yaml` and `.yml` are values. Raises `CommandError`."""
    if path.suffix in (".yaml", ".yml"):
        try:
            values = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            raise CommandError(f"{path} is not YAML: {plain(str(error), 300)}") from error
        if not isinstance(values, dict) or not values:
            raise CommandError(f"{path} has no values: a map of names is expected")
        return convert_values(values, release)
    companions = {name: read_file(path.parent / name) for name in COMPANIONS if (path.parent / name).is_file()}
    try:
        conversion = convert_slurm_conf(text, companions)
    except ConfError as error:
        raise CommandError(f"{path} cannot be read as slurm.conf: {plain(str(error), 300)}") from error
    if not conversion.values:
        raise CommandError(f"{path} has no setting that could be taken; is it a slurm.conf?")
    return conversion


def describe(conversion: Conversion) -> dict[str, Any]:
    """The conversion as a document."""
    return {
        "chart": conversion.chart,
        "values": conversion.values,
        "notTaken": [{"name": untaken.name, "why": untaken.why} for untaken in conversion.untaken],
        "notes": list(conversion.notes),
    }


def diff_lines(conversion: Conversion, text: str) -> list[str]:
    """A unified diff: of the settings for a slurm.conf, of the values otherwise."""
    before, after = conversion.before, conversion.after
    if not before:
        before = tuple(yaml.safe_dump(yaml.safe_load(text), sort_keys=False).splitlines())
        after = tuple(yaml.safe_dump(conversion.values, sort_keys=False).splitlines())
    return list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=1))


def _explain(conversion: Conversion, text: str, *, with_diff: bool) -> None:
    if with_diff:
        for line in diff_lines(conversion, text):
            typer.echo(plain(line, 400), err=True)
    typer.echo(f"# values of the chart {conversion.chart}", err=True)
    if conversion.untaken:
        typer.echo(f"# {counted(len(conversion.untaken), 'setting')} not taken:", err=True)
    for untaken in conversion.untaken:
        typer.echo(f"#   {plain(untaken.name, 200)}: {plain(untaken.why, 300)}", err=True)
    for note in conversion.notes:
        typer.echo(f"# note: {plain(note, 400)}", err=True)


def _write(path: Path, values: str) -> None:
    try:
        with path.open("x") as opened:
            opened.write(values)
    except FileExistsError:
        fail(f"{path} exists; choose another name with --write", ExitStatus.USAGE)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}", ExitStatus.FAILED)
