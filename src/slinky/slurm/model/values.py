# SPDX-License-Identifier: Apache-2.0
"""Values that occur in many objects of Slurm's JSON: numbers that may be unset or infinite, exit codes, TRES.

These are frozen structs, used in requests and in responses.
"""

import math

from msgspec import Struct


class Value(Struct, frozen=True, gc=False, omit_defaults=True):
    """The base of every struct in this library: immutable, not tracked by the garbage collector, defaults not sent."""


class Number(Value, frozen=True, gc=False):
    """Slurm's number: a value, unset, or infinite."""

    set: bool = False
    infinite: bool = False
    number: int | float = 0

    @property
    def value(self) -> int | float | None:
        """The number, `math.inf`, or None if it is unset."""
        if self.infinite:
            return math.inf
        return self.number if self.set else None

    @property
    def whole(self) -> int:
        """The number as an integer, 0 if it is unset or infinite; for times and ids."""
        return int(self.number) if self.set and not self.infinite else 0


#: No limit at all.
INFINITE = Number(set=True, infinite=True)
UNSET = Number()


def number(value: float | None) -> Number:
    """Build Slurm's form of a number; None is unset and `math.inf` is infinite."""
    if value is None:
        return UNSET
    return INFINITE if value == math.inf else Number(set=True, number=value)


class Signal(Value, frozen=True, gc=False):
    """The signal that ended a process, if one did."""

    id: Number = UNSET
    name: str = ""


class ExitCode(Value, frozen=True, gc=False):
    """How a job ended."""

    status: tuple[str, ...] = ()
    return_code: Number = UNSET
    signal: Signal = Signal()

    @property
    def code(self) -> int:
        """The exit code as a shell shows it: 128 + n for signal n."""
        signal = self.signal.id.whole
        return 128 + signal if signal else self.return_code.whole


def wait_status(code: int, signal: int = 0) -> ExitCode:
    """An exit code for a request, as a raw wait status: Slurm would return a plain code as a signal."""
    return ExitCode(return_code=number((code & 0xFF) << 8 | (signal & 0x7F)))


class Tres(Value, frozen=True, gc=False):
    """An amount of a trackable resource; -1 in a limit removes the limit."""

    type: str = ""
    name: str | None = None
    id: int | None = None
    count: int | None = None
