# SPDX-License-Identifier: Apache-2.0
"""Laws of quantities; `tests/integration/kube` compares them with the API server's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.kube.quantity import NANO, Quantity, canonical

amounts = st.integers(-(2**63 - 1) * NANO, (2**63 - 1) * NANO)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0", 0),
        ("1", NANO),
        ("100m", NANO // 10),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1E", 10**18 * NANO),
        (".5", NANO // 2),
        ("5.", 5 * NANO),
        ("+1k", 1000 * NANO),
        ("-1", -NANO),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("99E", (2**63 - 1) * NANO),
        (7, 7 * NANO),
    ],
)
def test_text_has_an_exact_amount(text: str | int, nano: int) -> None:
    assert Quantity.parse(text).nano == nano


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1.2.3", "1kk", "1ki", "e3", ".", "1e", "0x1", "\u0661", "1_0", "1e99999", "NaN"]
)
def test_a_text_that_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Ki", "1536"),
        ("1000", "1k"),
        ("1e6", "1e6"),
    ],
)
def test_canonical_text(text: str, expected: str) -> None:
    assert canonical(text) == expected


@given(amounts)
def test_formatting_and_parsing_is_exact(nano: int) -> None:
    for family in ("decimal", "binary", "exponent"):
        assert Quantity.parse(Quantity(nano).format(family)) == Quantity(nano)


@given(amounts, amounts)
def test_sums_and_order_are_those_of_the_numbers(one: int, two: int) -> None:
    assert (Quantity(one) + Quantity(two) - Quantity(two)) == Quantity(one)
    assert (Quantity(one) < Quantity(two)) == (one < two)


@given(amounts)
def test_rounding_is_never_down(nano: int) -> None:
    amount = Quantity(nano)
    assert 0 <= amount.whole() * NANO - nano < NANO
    assert 0 <= amount.mebi() * NANO * 2**20 - nano < NANO * 2**20


@given(st.text(max_size=12))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        again = canonical(text)
    except ValueError:
        return
    assert canonical(again) == again
