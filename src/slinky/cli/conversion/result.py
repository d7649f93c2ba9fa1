# SPDX-License-Identifier: Apache-2.0
"""What a conversion results in: values, and what was not taken with the reason."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Untaken(NamedTuple):
    """A setting or value that has no place in the result, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Conversion:
    """Values of a chart. `before` and `after` are the lines that a diff compares."""

    chart: str
    values: dict[str, Any]
    untaken: tuple[Untaken, ...] = ()
    #: What a person has to know or do before the values are used.
    notes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
