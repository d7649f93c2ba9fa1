# SPDX-License-Identifier: Apache-2.0
"""Constraints of jobs, evaluated for the features of one node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight.feature_expression import MAX_DEPTH, satisfies

FEATURES = frozenset({"gpu", "ib", "rack-1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        (" ", True),
        ("gpu", True),
        ("cpu", False),
        ("gpu&ib", True),
        ("gpu,ib", True),
        ("gpu&cpu", False),
        ("cpu|gpu", True),
        ("cpu|gpu&roce", False),
        ("gpu&(ib|roce)", True),
        ("[rack-1|rack-2]", True),
        ("[cpu*2&gpu*4]", False),
        ("gpu*4", True),
        ("[gpu|cpu]*4", True),
        ("gpu&", False),
        ("(gpu", False),
        ("gpu)", False),
        ("&", False),
        ("(" * 1000 + "gpu" + ")" * 1000, False),
        ("(" * MAX_DEPTH + "gpu" + ")" * MAX_DEPTH, True),
    ],
)
def test_a_constraint_is_evaluated_as_slurm_does(text: str, expected: bool) -> None:
    assert satisfies(FEATURES, text) is expected


@given(st.text(alphabet="ab&|,()[]* 1", max_size=30))
def test_any_text_gives_an_answer(text: str) -> None:
    assert satisfies({"a"}, text) in {True, False}
