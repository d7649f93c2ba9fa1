# SPDX-License-Identifier: Apache-2.0
"""Output of commands: tables for people, JSON for programs, one sentence for an error."""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    """Values of `-o`."""

    TEXT = "text"
    JSON = "json"


def print_json(value: Any) -> None:
    """Print one JSON document to standard output."""
    typer.echo(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a plain table to standard output."""
    table = Table(title=title or None, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 160).print(table)


@contextlib.contextmanager
def explained(*known: type[Exception]) -> Iterator[None]:
    """Turn known errors into a sentence on standard error and exit code 1."""
    try:
        yield
    except known as problem:
        typer.secho(f"slinky: {problem}", err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)
        raise typer.Exit(1) from problem
    except KeyboardInterrupt:
        typer.echo("slinky: interrupted; completed steps are kept", err=True)
        raise typer.Exit(130) from None
