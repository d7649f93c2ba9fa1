# SPDX-License-Identifier: Apache-2.0
"""At most so many actions within a sliding window."""

from slinky.kube.rate_limit import RateLimit


def test_actions_count_until_the_window_has_passed() -> None:
    limit = RateLimit(window=60)
    assert limit.remaining(2, now=0) == 2
    limit.record(0)
    limit.record(1)
    assert [limit.remaining(2, now) for now in (1, 59, 60, 61)] == [0, 0, 1, 2]


def test_the_limit_may_change_between_calls() -> None:
    limit = RateLimit(window=60)
    limit.record(0)
    assert (limit.remaining(25, now=1), limit.remaining(1, now=1), limit.remaining(0, now=1)) == (24, 0, 0)
