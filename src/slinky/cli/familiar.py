# SPDX-License-Identifier: Apache-2.0
"""Flags of slurm-operator's own programs, for deployments that were written for them. Pure but for the command.

A flag that has a meaning here is translated; one that has none is dropped. Switches may be written as Go programs take
them, `--leader-elect=false`. Anything else is left to be refused by name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from typer.core import TyperCommand

#: Flags without a meaning here, and whether a word follows them: one way to log, no HTTP/2, no Go to profile.
_LOGGING = {"--zap-devel": False, "--zap-encoder": True, "--zap-stacktrace-level": True, "--zap-time-encoding": True}
_COMMON = {**_LOGGING, "--enable-http2": False}
MEANINGLESS: Mapping[str, Mapping[str, bool]] = {
    "operator": {**_COMMON, "--profile": False, "--profile-addr": True},
    # Every replica answers, and what to answer for is said by the webhook configurations.
    "webhook": {**_COMMON, "--leader-elect": False, "--leader-elect-namespace": True, "--namespaces": True},
}
LEVEL = "--zap-log-level"
LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error", "panic": "error"}


class Familiar(TyperCommand):
    """A command that takes familiar flags too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Translate, then parse."""
        switches = {name for given in self.params if getattr(given, "is_flag", False) for name in given.opts}
        return super().parse_args(ctx, list(translated(args, MEANINGLESS[self.name or ""], switches)))


def translated(given: Iterable[str], meaningless: Mapping[str, bool], switches: Collection[str]) -> Iterator[str]:
    """The same in our flags; `switches` are ours that take no word."""
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if name in meaningless:
            if meaningless[name] and not equals:
                next(words, None)
        elif name == LEVEL:
            yield f"--log-level={_level(value if equals else next(words, ''))}"
        elif name in switches and equals:
            if value.lower() in ("1", "t", "true"):
                yield name
        else:
            yield word


def _level(said: str) -> str:
    """A level of zap, where a number above 0 is debugging."""
    if said.isdigit():
        return "debug" if int(said) else "info"
    return LEVELS.get(said, said)
