# SPDX-License-Identifier: Apache-2.0
"""Laws of splitting a stream into lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.kube.errors import Unreadable
from slinky.kube.line_splitter import LineSplitter

lines = st.lists(st.binary(min_size=1, max_size=30).map(lambda raw: raw.replace(b"\n", b"x")), max_size=20)


@given(lines=lines, cuts=st.lists(st.integers(0, 700), max_size=30), tail=st.binary(max_size=10))
def test_chunk_borders_do_not_matter(lines: list[bytes], cuts: list[int], tail: bytes) -> None:
    tail = tail.replace(b"\n", b"x")
    stream = b"".join(line + b"\n" for line in lines) + tail
    borders = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter, result = LineSplitter(), []
    for start, end in pairwise(borders):
        result += splitter.feed(stream[start:end])
    assert result == lines  # and the unfinished tail is never returned


def test_an_endless_line_is_refused() -> None:
    splitter = LineSplitter(limit=100)
    with pytest.raises(Unreadable):
        for _ in range(11):
            splitter.feed(b"x" * 10)
