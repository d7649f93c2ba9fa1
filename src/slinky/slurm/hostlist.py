# SPDX-License-Identifier: Apache-2.0
"""Expands and folds Slurm's hostlist notation.

`expand("gpu[01-03,7]-ib,login")` returns the names in Slurm's order; `fold` returns the shortest hostlist for a set
of names; the two are inverse to each other. Leading zeros are part of a name and are kept. An expansion larger than
`limit` is rejected before it is built, so that text from outside cannot fill the memory.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product

from slinky.bounds import HOST_NAME_MAX, HOSTLIST_MAX

_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?\Z", re.ASCII)
_PLAIN = re.compile(r"[^\[\],\s]*\Z")
_NUMBERED = re.compile(r"(.*?)(\d{1,18})\Z", re.ASCII | re.DOTALL)
_NATURAL = re.compile(r"(\d+)", re.ASCII)


class HostlistError(ValueError):
    """The text is not a hostlist or expands to too many names."""


class HostlistTooLongError(HostlistError):
    """The text expands to more names than the limit."""


def expand(text: str, *, limit: int = HOSTLIST_MAX) -> list[str]:
    """Every name of the hostlist, in Slurm's order, duplicates kept.

    Raises `HostlistError` for malformed text and for more than `limit` names.
    """
    names: list[str] = []
    for term in split_terms(text):
        parts: list[list[str]] = []
        size, length = 1, 0
        for part in _parts(term, limit):
            size, length = size * len(part), length + max(map(len, part))
            if size + len(names) > limit:
                raise HostlistTooLongError(f"the hostlist expands to more than {HOSTLIST_MAX} names")
            if length > HOST_NAME_MAX:
                raise HostlistError(f"{term[:80]!r} has a name of more than {HOST_NAME_MAX} characters")
            parts.append(part)
        names.extend(map("".join, product(*parts)))
    return names


def expand_all(texts: Iterable[str], *, limit: int = HOSTLIST_MAX) -> list[str]:
    """Every name of several hostlists; a text that is no hostlist counts as one name.

    Raises `HostlistTooLongError` if they have more than `limit` names together.
    """
    names: list[str] = []
    for text in texts:
        try:
            names += expand(text, limit=limit - len(names))
        except HostlistTooLongError:
            raise
        except HostlistError:
            names.append(text)
    return names


def fold(names: Iterable[str]) -> str:
    """The hostlist of exactly these names, in natural order and without duplicates."""
    single: set[str] = set()
    numbered: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name in set(names):
        if not name or not _PLAIN.match(name):
            raise HostlistError(f"{name!r} is not a host name")
        match = _NUMBERED.match(name)
        if match is None:
            single.add(name)
        else:
            prefix, digits = match.groups()
            # Width 0 means "without leading zeros"; "07" and "7" are different names.
            width = len(digits) if digits[0] == "0" and len(digits) > 1 else 0
            numbered[prefix, width].add(int(digits))
    _merge_equal_widths(numbered)
    terms = [(name, name) for name in single]
    for (prefix, width), numbers in numbered.items():
        runs = list(_runs(sorted(numbers)))
        bodies = [_range(first, last, width) for first, last in runs]
        bracket = len(bodies) > 1 or runs[0][0] != runs[0][1]
        term = f"{prefix}[{','.join(bodies)}]" if bracket else prefix + bodies[0]
        terms.append((f"{prefix}{runs[0][0]:0{width or 1}d}", term))
    return ",".join(term for _, term in sorted(terms, key=lambda pair: natural_sort_key(pair[0])))


def natural_sort_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """A sort key by which n2 comes before n10."""
    pieces = _NATURAL.split(name)
    digits = [*pieces[1::2], ""]
    return tuple((text, int(number or -1), number) for text, number in zip(pieces[0::2], digits, strict=True))


def split_terms(text: str) -> list[str]:
    """The comma-separated terms of a hostlist; commas inside brackets do not separate terms."""
    terms, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and not depth:
            terms.append(text[start:position])
            start = position + 1
        if depth not in {0, 1}:
            raise HostlistError(f"{text[:80]!r} has unbalanced brackets")
    if depth:
        raise HostlistError(f"{text[:80]!r} has unbalanced brackets")
    terms.append(text[start:])
    return [term.strip() for term in terms if term.strip()]


def _parts(term: str, limit: int) -> Iterator[list[str]]:
    """The alternatives at each position of one term: `a[1-2]b` is [a], [1, 2], [b]."""
    for index, piece in enumerate(re.split(r"[\[\]]", term)):
        if index % 2 == 0:
            if not _PLAIN.match(piece):
                raise HostlistError(f"{term[:80]!r} is not a host name")
            yield [piece]
        else:
            yield _numbers(piece, limit)


def _numbers(body: str, limit: int) -> list[str]:
    """The numbers inside one pair of brackets, with the leading zeros as written."""
    numbers: list[str] = []
    for item in body.split(","):
        match = _RANGE.match(item.strip())
        if match is None:
            raise HostlistError(f"{item[:40]!r} is not a range")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise HostlistError(f"the range {item[:40]!r} is reversed")
        if int(last) - int(first) >= limit - len(numbers):
            raise HostlistTooLongError(f"with the range {item[:40]!r} there are more than {HOSTLIST_MAX} names")
        numbers.extend(f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return numbers


def _merge_equal_widths(numbered: dict[tuple[str, int], set[int]]) -> None:
    """Move 10 into the group of 09 if both exist: with that width it is written the same."""
    for prefix, width in [key for key in numbered if key[1]]:
        plain = numbered.get((prefix, 0))
        if plain:
            same = {number for number in plain if len(str(number)) == width}
            numbered[prefix, width] |= same
            plain -= same
            if not plain:
                del numbered[prefix, 0]


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last number of each run of consecutive numbers in a sorted list."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _range(first: int, last: int, width: int) -> str:
    text = f"{first:0{width or 1}d}"
    return text if first == last else f"{text}-{last:0{width or 1}d}"
