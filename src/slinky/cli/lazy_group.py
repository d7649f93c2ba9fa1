# SPDX-License-Identifier: Apache-2.0
"""A group of commands that imports the module of a command only when the command runs.

The list of commands with their help is a table, so that `slinky --help` and every verb start quickly.
"""

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    """The commands of `table`: name to module and help. A module has a `typer.Typer` called `app`."""

    table: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command for lists and suggestions, which only has its help."""
        if cmd_name not in self.table:
            return None
        text = self.table[cmd_name][1]
        return TyperCommand(name=cmd_name, help=text, short_help=text)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command itself, for execution."""
        name = args[0] if args else ""
        if name in self.table:
            return name, self.load(name), args[1:]
        if near := get_close_matches(name, self.table, n=3):
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    @classmethod
    def load(cls, name: str) -> Any:
        """Import the module of a command and return the command."""
        module = importlib.import_module(cls.table[name][0])
        application: typer.Typer = module.app
        command = get_command(application)
        command = getattr(command, "commands", {}).get(name, command)
        command.name = name
        return command
