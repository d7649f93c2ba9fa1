# SPDX-License-Identifier: Apache-2.0
"""The reference tables of docs/slurm-client.md, made from the tables of the code.

`python -m slinky.slurm.reference` prints them; a test holds the page against them, so neither can drift.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import get_type_hints

from slinky.slurm.errors import MEANING, SlurmError
from slinky.slurm.mirror.polling import Rhythm
from slinky.slurm.transport.endpoints import TABLE

DEFAULTS = Rhythm()


def endpoints() -> Iterator[str]:
    """Every request that the library can send."""
    yield from _head("call", "request", "since")
    for name, row in sorted(TABLE.items()):
        part = name.replace("ctld.", "").replace("dbd.", "accounting.")
        yield f"| `{part}` | `{row.method} /{row.api}/@/{row.path}` | {row.since} |"


def errors() -> Iterator[str]:
    """Every error type, what it stands for, and Slurm's numbers for it."""
    numbers: dict[type[SlurmError], list[int]] = defaultdict(list)
    for number, kind in MEANING.items():
        numbers[kind].append(number)
    yield from _head("type", "meaning", "Slurm's numbers")
    for kind in _family(SlurmError):
        meaning = (kind.__doc__ or "").split("\n")[0]
        yield f"| `{kind.__name__}` | {meaning} | {', '.join(map(str, sorted(numbers[kind])))} |"


def rhythm() -> Iterator[str]:
    """The intervals of the mirror."""
    yield from _head("setting", "default", "seconds")
    for name, kind in get_type_hints(Rhythm, include_extras=True).items():
        (meta,) = kind.__metadata__
        yield f"| `{name}` | {getattr(DEFAULTS, name):g} | {meta.description} |"


def page() -> str:
    """All tables, as the page has them."""
    parts = {"Requests": endpoints(), "Errors": errors(), "Rhythm": rhythm()}
    return "\n\n".join(f"### {title}\n\n" + "\n".join(lines) for title, lines in parts.items())


def _head(*titles: str) -> Iterable[str]:
    return (f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}")


def _family(kind: type[SlurmError]) -> Iterator[type[SlurmError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _family(child)


if __name__ == "__main__":
    print(page())
