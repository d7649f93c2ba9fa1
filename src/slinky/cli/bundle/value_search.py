# SPDX-License-Identifier: Apache-2.0
"""Finds every occurrence of many values in a text, in one pass. Pure.

The text is sampled: an occurrence of a value contains at least one of the sampled pieces, because samples are not
farther apart than the shortest value allows. The pieces of all values are in one table, so the time of a search does
not grow with the number of values, only with the number of places that look like one.
"""

from collections.abc import Iterable, Iterator

#: Characters of a sampled piece; no value may be shorter.
PIECE = 4
#: Samples are at most this far apart: the table has so many pieces of each value.
STEP_MAX = 4

#: Where the values that have a piece may begin before it, and how long they are.
Candidates = dict[tuple[int, int], set[str]]


class ValueSearch:
    """The values to search for, each at least `PIECE` characters long."""

    def __init__(self, values: Iterable[str]) -> None:
        texts = set(values)
        self._step = min(STEP_MAX, min(map(len, texts), default=PIECE) - PIECE + 1)
        self._table: dict[str, Candidates] = {}
        for text in texts:
            for offset in range(self._step):
                candidates = self._table.setdefault(text[offset : offset + PIECE], {})
                candidates.setdefault((offset, len(text)), set()).add(text)

    def replace(self, text: str, replacement: str) -> str:
        """The text with a replacement for each occurrence; occurrences that overlap become one."""
        parts, end = list[str](), 0
        for start, stop in self._merged_spans(text):
            parts += [text[end:start], replacement]
            end = stop
        return "".join([*parts, text[end:]]) if parts else text

    def _merged_spans(self, text: str) -> list[tuple[int, int]]:
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(self._spans(text)):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return merged

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of every occurrence, in no order."""
        table = self._table
        for place in (i for i in range(0, len(text) - PIECE + 1, self._step) if text[i : i + PIECE] in table):
            for (offset, length), values in table[text[place : place + PIECE]].items():
                start = place - offset
                if start >= 0 and text[start : start + length] in values:
                    yield start, start + length
