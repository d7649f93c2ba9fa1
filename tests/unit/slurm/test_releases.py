# SPDX-License-Identifier: Apache-2.0
"""Versions of Slurm and which of them work together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.releases import Release, SlurmVersion, parse_version

RELEASES = [Release(*pair) for pair in
            ((21, 8), (22, 5), (23, 2), (23, 11), (24, 5), (24, 11), (25, 5), (25, 11), (26, 5), (26, 11))]  # fmt: skip
KNOWN = st.sampled_from(RELEASES)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm 26.05.5", SlurmVersion(Release(26, 5), 5)),
        ("slurm-wlm 24.11.5\n", SlurmVersion(Release(24, 11), 5)),
        ("slurm 25.11.0-0rc1", SlurmVersion(Release(25, 11), 0)),
        ("26.05", SlurmVersion(Release(26, 5), 0)),
        ("slurm 26.13.1", None),
        ("mysqld 10.11.2", None),
        ("", None),
        ("sh: slurmdbd: not found", None),
    ],
)
def test_the_version_in_the_answer_of_a_daemon(text: str, version: SlurmVersion | None) -> None:
    assert parse_version(text) == version


def test_releases_are_numbered_one_after_the_other() -> None:
    numbers = [release.number for release in RELEASES]
    assert numbers == list(range(numbers[0], numbers[0] + len(RELEASES)))


@pytest.mark.parametrize(
    ("newer", "oldest"),
    [
        ("26.05", "24.11"),
        ("25.11", "24.05"),
        ("25.05", "23.11"),
        ("24.11", "23.02"),
        ("24.05", "23.02"),
        ("23.11", "22.05"),
    ],
)
def test_each_release_accepts_exactly_its_window(newer: str, oldest: str) -> None:
    release = next(item for item in RELEASES if str(item) == newer)
    accepted = [str(item) for item in RELEASES if release.accepts(item)]
    assert (accepted[0], accepted[-1]) == (oldest, newer)


@given(KNOWN, KNOWN)
def test_no_release_accepts_a_newer_one(one: Release, other: Release) -> None:
    assert one.accepts(one)
    assert not (one < other and one.accepts(other))


@given(st.integers(21, 99), st.integers(1, 12), st.integers(0, 99))
def test_a_version_is_read_back_as_it_is_printed(year: int, month: int, maintenance: int) -> None:
    version = SlurmVersion(Release(year, month), maintenance)
    assert parse_version(f"slurm {version}") == version
