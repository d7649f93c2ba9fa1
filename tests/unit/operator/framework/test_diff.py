# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.operator.framework.diff import FINGERPRINT, contains, fingerprint, with_fingerprint

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)

CASES: list[tuple[str, Any, Any, bool]] = [
    ("what the server adds does not matter", {"a": 1, "b": 2}, {"a": 1}, True),
    ("a changed value matters", {"a": 2}, {"a": 1}, False),
    ("a missing value matters", {}, {"a": 1}, False),
    ("what is empty may be absent", {}, {"a": "", "b": {}, "c": [], "d": None, "e": False}, True),
    ("an item is found anywhere in its list", [{"n": 2}, {"n": 1, "x": 0}], [{"n": 1}], True),
    ("a list of words is exact", ["a", "b"], ["a"], False),
    ("an empty list wants an empty list", ["a"], [], False),
    ("a list is no mapping", {"a": 1}, [1], False),
]


@pytest.mark.parametrize(("law", "live", "wanted", "result"), CASES, ids=[case[0] for case in CASES])
def test_what_is_contained(law: str, live: Any, wanted: Any, result: bool) -> None:
    assert contains(live, wanted) is result


@given(TREES)
def test_everything_contains_itself(tree: Any) -> None:
    assert contains(tree, tree)


def test_the_fingerprint_shows_a_removed_field() -> None:
    before = with_fingerprint({"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}})
    after = with_fingerprint({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert contains(before, {"spec": after["spec"]})
    assert before["metadata"]["annotations"][FINGERPRINT] != after["metadata"]["annotations"][FINGERPRINT]


def test_the_fingerprint_ignores_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
