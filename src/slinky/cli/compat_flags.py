# SPDX-License-Identifier: Apache-2.0
"""Accepts the flags of slurm-operator, which is written in Go, so that its Deployments start these commands too.

A boolean flag may be given as `--flag=true`. Flags without a meaning here are ignored with a message.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import typer
from typer.core import TyperCommand, TyperOption

#: Flags that are ignored by commands without a flag of that name, and whether they take a value.
IGNORED_FLAGS: Mapping[str, bool] = {
    "--enable-http2": False,
    "--leader-elect": False,
    "--leader-elect-namespace": True,
    "--namespaces": True,
    "--zap-devel": False,
    "--zap-encoder": True,
    "--zap-stacktrace-level": True,
    "--zap-time-encoding": True,
}
#: The flag of the log level in slurm-operator.
ZAP_LEVEL = "--zap-log-level"
#: Log levels of slurm-operator that have another name here; a number above 0 means debug.
ZAP_LEVELS = {"warn": "warning", "panic": "error", "0": "info"}
TRUE, FALSE = ("true", "t", "1"), ("false", "f", "0")


class CompatFlags(TyperCommand):
    """A command that also accepts the flags of slurm-operator."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Translate the flags of slurm-operator, then parse."""
        options = [param for param in self.params if isinstance(param, TyperOption)]
        known = {name for option in options for name in option.opts}
        switches = {name: option.secondary_opts for option in options if option.is_flag for name in option.opts}
        return super().parse_args(ctx, list(_translate(args, known, switches)))


def _translate(args: Iterable[str], known: set[str], switches: Mapping[str, Sequence[str]]) -> Iterator[str]:
    remaining = iter(args)
    for arg in remaining:
        name, has_value, value = arg.partition("=")
        if name in IGNORED_FLAGS and name not in known:
            typer.echo(f"slinky: the flag {name} has no effect and is ignored", err=True)
            if IGNORED_FLAGS[name] and not has_value:
                next(remaining, None)
        elif name == ZAP_LEVEL:
            yield f"--log-level={_log_level(value if has_value else next(remaining, ''))}"
        elif name in switches and value.lower() in TRUE:
            yield name
        elif name in switches and value.lower() in FALSE:
            yield from switches[name]
        else:
            yield arg


def _log_level(zap_level: str) -> str:
    return ZAP_LEVELS.get(zap_level) or ("debug" if zap_level.isdigit() else zap_level)
