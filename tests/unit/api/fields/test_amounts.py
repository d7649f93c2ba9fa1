# SPDX-License-Identifier: Apache-2.0
"""Durations and percentages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.api import scaled_value, seconds


@pytest.mark.parametrize(
    ("text", "meant"), [("30m", 1800), ("1h30m", 5400), ("12h0m0s", 43200), ("1.5s", 1.5), ("0s", 0), ("250ms", 0.25)]
)
def test_a_duration_is_read_as_go_reads_it(text: str, meant: float) -> None:
    assert seconds(text) == pytest.approx(meant)


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "1d", "1h 30m", "1h\n"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("share", "total", "meant"),
    [(3, 10, 3), (0, 10, 0), ("25%", 10, 3), ("25%", 4, 1), ("100%", 7, 7), ("0%", 9, 0), ("some", 9, 1), ("5", 9, 1)],
)
def test_a_share_rounds_up(share: int | str, total: int, meant: int) -> None:
    assert scaled_value(share, total) == meant


@given(st.integers(1, 100), st.integers(1, 100_000))
def test_a_positive_share_of_something_is_never_nothing_and_never_more(percent: int, total: int) -> None:
    assert 1 <= scaled_value(f"{percent}%", total) <= total
