# SPDX-License-Identifier: Apache-2.0
"""Flags as existing installations pass them to programs in Go.

A switch may be given as `--switch=true`, and flags that have no meaning here are dropped with a word about it, so that
a Deployment that was written for the incumbent starts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import typer
from typer.core import TyperCommand, TyperOption

#: Flags that mean nothing here, and whether they take a value; one that a command knows itself is not meant.
FORMER: Mapping[str, bool] = {
    "--enable-http2": False,
    "--leader-elect": False,
    "--leader-elect-namespace": True,
    "--namespaces": True,
    "--zap-devel": False,
    "--zap-encoder": True,
    "--zap-stacktrace-level": True,
    "--zap-time-encoding": True,
}
#: Their levels that have another name here; a number above 0 means ever more details.
LEVEL, LEVELS = "--zap-log-level", {"warn": "warning", "panic": "error", "0": "info"}
TRUE, FALSE = ("true", "t", "1"), ("false", "f", "0")


class CompatFlags(TyperCommand):
    """A command that takes them."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put them into our words, then parse."""
        options = [param for param in self.params if isinstance(param, TyperOption)]
        known = {name for option in options for name in option.opts}
        switches = {name: option.secondary_opts for option in options if option.is_flag for name in option.opts}
        return super().parse_args(ctx, list(_ours(args, known, switches)))


def _ours(args: Iterable[str], known: set[str], switches: Mapping[str, Sequence[str]]) -> Iterator[str]:
    rest = iter(args)
    for arg in rest:
        name, given, value = arg.partition("=")
        if name in FORMER and name not in known:
            typer.echo(f"slinky: {name} means nothing here and is ignored", err=True)
            if FORMER[name] and not given:
                next(rest, None)
        elif name == LEVEL:
            yield f"--log-level={_level(value if given else next(rest, ''))}"
        elif name in switches and value.lower() in TRUE:
            yield name
        elif name in switches and value.lower() in FALSE:
            yield from switches[name]
        else:
            yield arg


def _level(said: str) -> str:
    return LEVELS.get(said) or ("debug" if said.isdigit() else said)
