# SPDX-License-Identifier: Apache-2.0
"""Prints tables and documents of the verbs of a cluster: for people, or as JSON, YAML or names for programs.

Texts of other people are escaped. Colours are used only on a terminal, and not if NO_COLOR is set.
"""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from slinky.insight.plain_text import plain

#: Characters of a cell at most.
CELL_LIMIT = 60
WIDE_CELL_LIMIT = 200


class OutputFormat(StrEnum):
    """Values of `-o`."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="Output format: text, wide, json, yaml or name.")]


def print_document(value: Any, output: OutputFormat) -> None:
    """Print a value as JSON or YAML."""
    typer.echo(format_document(value, output))


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, str]], output: OutputFormat) -> None:
    """Print a table."""
    typer.echo(format_rows(columns, rows, output))


def format_document(value: Any, output: OutputFormat) -> str:
    """A value as JSON or YAML, without control characters. JSON escapes every character that is not ASCII."""
    if output is OutputFormat.JSON:
        return json.dumps(value, indent=2)
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=False)).removesuffix("\n")


def format_rows(columns: Sequence[str], rows: Sequence[Mapping[str, str]], output: OutputFormat) -> str:
    """A table with aligned columns; on a terminal the header is bold."""
    limit = WIDE_CELL_LIMIT if output is OutputFormat.WIDE else CELL_LIMIT
    cells = [[plain(row.get(column, ""), limit) for column in columns] for row in rows]
    widths = [max([len(column), *(len(row[index]) for row in cells)]) for index, column in enumerate(columns)]
    header = "  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip()
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([typer.style(header, bold=True) if use_colors() else header, *lines])


def format_paragraph(text: str) -> str:
    """A paragraph, wrapped to the width of a terminal."""
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size().columns, 100)
        return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)
    return text


def use_colors() -> bool:
    """Whether standard output shows colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
