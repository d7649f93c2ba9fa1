# SPDX-License-Identifier: Apache-2.0
"""Texts of other people are bounded and free of control characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight.plain_text import duration, listed, megabytes, plain


@given(st.text(), st.integers(min_value=1, max_value=300))
def test_a_text_is_printable_and_bounded(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


def test_escape_sequences_and_text_direction_are_shown_not_sent() -> None:
    assert plain("a\x1b[2Jb\u202ec\n") == "a\\x1b[2Jb\\u202ec\\x0a"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min"), (3661, "1 h 1 min"), (90061, "1 d 1 h"), (-5, "0 s")],
)
def test_durations_have_their_two_largest_units(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_lists_are_bounded() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a and b"
    assert listed("abcdefgh") == "a, b, c, d, e and 3 more"


def test_memory() -> None:
    assert [megabytes(n) for n in (512, 1536, 64000, 2**21)] == ["512 MB", "1.5 GB", "62.5 GB", "2 TB"]
