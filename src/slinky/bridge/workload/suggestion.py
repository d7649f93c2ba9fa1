# SPDX-License-Identifier: Apache-2.0
"""The known name that is nearest to an unknown name, for messages about unknown names. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

#: Names that are compared: the comparison takes some microseconds for each.
NAMES_MAX = 5_000
#: Longer names are not compared.
LENGTH_MAX = 128


def nearest_name(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest to `name`; empty if none is near."""
    candidates = [other for other, _ in zip(known, range(NAMES_MAX), strict=False) if len(other) <= LENGTH_MAX]
    by_folded = {candidate.lower(): candidate for candidate in reversed(candidates)}
    near = get_close_matches(name[:LENGTH_MAX].lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest known name, with a blank before it; empty if none is near."""
    nearest = nearest_name(name, known)
    return f"; did you mean {nearest}?" if nearest and nearest != name else ""
