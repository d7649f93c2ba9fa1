# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources from Slurm's texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight.tres import ResourceAmounts, parse_gres, parse_tres

G = 2**30


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("", ResourceAmounts()),
        ("cpu=4,mem=16G,node=2,billing=4", ResourceAmounts(2, 4, 16 * G)),
        ("cpu=1,mem=1.5G", ResourceAmounts(0, 1, 3 * G // 2)),
        ("mem=512", ResourceAmounts(memory_bytes=512 * 2**20)),
        ("gres/gpu=4,gres/gpu:a100=4", ResourceAmounts(gres={("gpu", "a100"): 4})),
        ("gres/gpu=6,gres/gpu:a100=4", ResourceAmounts(gres={("gpu", "a100"): 4, ("gpu", ""): 2})),
        ("gres/gpu=2,gres/shard=8", ResourceAmounts(gres={("gpu", ""): 2, ("shard", ""): 8})),
        ("cpu=many,mem=-1,node", ResourceAmounts()),
    ],
)
def test_tres_texts_are_read(text: str, resources: ResourceAmounts) -> None:
    assert parse_tres(text) == resources


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("(null)", {}),
        ("gpu:8", {("gpu", ""): 8}),
        ("gpu:a100:4(S:0),gpu:a100:4(S:1),shard:16", {("gpu", "a100"): 8, ("shard", ""): 16}),
        ("gpu:a100:2(IDX:0,3),gpu:h100:0(IDX:N/A)", {("gpu", "a100"): 2, ("gpu", "h100"): 0}),
        ("mps:2K", {("mps", ""): 2048}),
    ],
)
def test_gres_texts_are_read(text: str, counts: dict[tuple[str, str], int]) -> None:
    assert parse_gres(text) == counts


def test_the_amount_of_all_types() -> None:
    assert parse_tres("gres/gpu=6,gres/gpu:a100=4").gres_count("gpu") == 6


@given(st.text(alphabet="cpumeg/:=,()0123456789.KMG-٣", max_size=80))
def test_no_text_raises(text: str) -> None:
    assert parse_tres(text).cpus >= 0
    assert all(count >= 0 for count in parse_gres(text).values())
