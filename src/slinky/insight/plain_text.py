# SPDX-License-Identifier: Apache-2.0
"""Makes texts of other people safe to print: bounded, on one line, without control characters. Pure.

Names, comments and reasons of Slurm are written by its users. A terminal would carry out the escape sequences in them.
"""

from collections.abc import Iterable, Sequence

#: Characters of a foreign text that a sentence contains at most.
TEXT_LIMIT = 200
#: Names of a list that a sentence contains at most.
NAMES_LIMIT = 5


def plain(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text with control, format and unassigned characters escaped, cut to `limit` characters."""
    cut = text[: limit + 1]
    escaped = cut if cut.isprintable() else "".join(map(_escape, cut))
    return escaped if len(escaped) <= limit else escaped[: max(limit - 1, 0)] + "…"


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def listed(names: Iterable[str], limit: int = NAMES_LIMIT) -> str:
    """The first names and how many more there are: `a, b and 3 more`."""
    texts = [plain(name, 80) for name in names]
    if len(texts) > limit:
        return f"{', '.join(texts[:limit])} and {len(texts) - limit} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""


def counted(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun: `1 job`, `2 jobs`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def duration(seconds: float) -> str:
    """A duration for people, with its two largest units: `3 d 4 h`, `5 min`, `40 s`."""
    rest = max(int(seconds), 0)
    units: Sequence[tuple[str, int]] = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for unit, size in units:
        amount, rest = divmod(rest, size)
        if amount:
            parts.append((unit, amount))
    if not parts:
        return "0 s"
    # Seconds beside hours and minutes beside days say nothing to a person.
    shown = [
        part for part in parts[:2] if units.index(next(u for u in units if u[0] == part[0])) < 3 or len(parts) == 1
    ]
    return " ".join(f"{amount} {unit}" for unit, amount in shown)


def megabytes(amount: float) -> str:
    """An amount of memory that Slurm counts in megabytes: `512 MB`, `1.5 GB`."""
    for unit, size in (("TB", 2**20), ("GB", 2**10)):
        if amount >= size:
            return f"{round(amount / size, 1):g} {unit}"
    return f"{int(amount)} MB"
