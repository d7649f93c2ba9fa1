# SPDX-License-Identifier: Apache-2.0
"""When events are let gather before the process is woken for them, and when they are not."""

from slinky.kube.transport import BUSY_GAP, DENSE_BYTES_PER_SECOND, MAX_BATCH_DELAY, MIN_BATCH_DELAY, next_batch_delay

EVENT = 4096


def pauses(rate: float, begin: float = 0.0, turns: int = 20) -> list[float]:
    """The pauses of a stream that brings so many events a second, all that have come in one chunk."""
    found, pause = [], begin
    for _ in range(turns):
        there = int(pause * rate)
        gap = 0.0 if there else 1 / rate - pause
        pause = next_batch_delay(pause, gap, max(1, there) * EVENT)
        found.append(pause)
    return found


def test_a_lone_event_is_never_held_up() -> None:
    assert next_batch_delay(0.0, 1.0, EVENT) == 0.0
    assert next_batch_delay(MAX_BATCH_DELAY, BUSY_GAP, EVENT) == 0.0


def test_two_in_a_row_are_the_first_sign_of_a_crowd() -> None:
    assert next_batch_delay(0.0, 0.001, EVENT) == MIN_BATCH_DELAY


def test_a_crowd_is_read_in_ever_larger_heaps() -> None:
    found = pauses(2 * DENSE_BYTES_PER_SECOND / EVENT)
    assert found[-1] == MAX_BATCH_DELAY
    assert found == sorted(found)


def test_a_trickle_after_a_crowd_is_soon_read_event_by_event_again() -> None:
    found = pauses(60, begin=MAX_BATCH_DELAY)
    assert found[0] < MAX_BATCH_DELAY
    assert 0.0 in found
    assert max(found[found.index(0.0) :]) <= MIN_BATCH_DELAY
