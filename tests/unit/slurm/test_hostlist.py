# SPDX-License-Identifier: Apache-2.0
import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given, settings
from hypothesis import strategies as st

from slinky.slurm.hostlist import HostlistError, expand, expand_all, fold, natural_sort_key

NAMES = st.from_regex(r"[a-z]{1,3}(-[a-z])?[0-9]{0,4}(-ib)?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("login", ["login"]),
        ("a[1-3]", ["a1", "a2", "a3"]),
        ("a[08-11]", ["a08", "a09", "a10", "a11"]),
        ("a[1,3-4],b", ["a1", "a3", "a4", "b"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("r[1-2]n[8-9]", ["r1n8", "r1n9", "r2n8", "r2n9"]),
        ("a[98-101]", ["a98", "a99", "a100", "a101"]),
        ("a1, a2", ["a1", "a2"]),
    ],
)
def test_a_hostlist_expands_in_the_order_of_slurm(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["a[1-", "a]1[", "a[[1]]", "a[x]", "a[3-1]", "a[]", "a b", "a[1-2]]", "a[1-999999999]"]
)
def test_text_that_is_not_a_hostlist_is_rejected(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


def test_a_large_expansion_is_rejected_before_it_is_built() -> None:
    with pytest.raises(HostlistError):
        expand(",".join(["a[1-1000]b[1-1000]"] * 10))
    with pytest.raises(HostlistError):
        expand("a[1-100]", limit=99)


def test_several_hostlists_share_one_limit() -> None:
    assert expand_all(["a[1-2]", "b"], limit=3) == ["a1", "a2", "b"]
    with pytest.raises(HostlistError):
        expand_all(["a[1-2]", "b[1-2]"], limit=3)
    with pytest.raises(HostlistError):
        expand_all(f"a{number}[0-9999]" for number in range(7))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a1", "a2", "a10"], "a[1-2,10]"),
        (["a07", "a7"], "a07,a7"),
        (["a08", "a09", "a10", "a100"], "a[08-10],a100"),
        (["rack-007"], "rack-007"),
        (["x", "x9"], "x,x9"),
    ],
)
def test_names_fold_into_ranges(names: list[str], text: str) -> None:
    assert fold(names) == text


@given(st.lists(NAMES, max_size=40))
def test_folding_loses_nothing_and_adds_nothing(names: list[str]) -> None:
    assert sorted(expand(fold(names)), key=natural_sort_key) == sorted(set(names), key=natural_sort_key)


@settings(max_examples=30)
@given(st.lists(NAMES, min_size=1, max_size=40))
def test_clustershell_expands_what_fold_returns(names: list[str]) -> None:
    assert set(NodeSet(fold(names))) == set(names)


@settings(max_examples=30)
@given(st.lists(NAMES, min_size=1, max_size=40))
def test_expand_reads_what_clustershell_folds(names: list[str]) -> None:
    assert set(expand(str(NodeSet.fromlist(names)))) == set(names)


@given(st.text(max_size=60))
def test_any_text_expands_or_is_rejected(text: str) -> None:
    try:
        names = expand(text, limit=1000)
    except HostlistError:
        return
    assert len(names) <= 1000
    assert all("[" not in name for name in names)
