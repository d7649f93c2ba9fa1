# SPDX-License-Identifier: Apache-2.0
"""When the events of a stream are read in batches, and when one by one."""

from slinky.kube.aio_transport import (
    BUSY_GAP,
    DENSE_BYTES_PER_SECOND,
    MAX_BATCH_DELAY,
    MIN_BATCH_DELAY,
    next_batch_delay,
)

EVENT = 4096


def delays(rate: float, begin: float = 0.0, turns: int = 20) -> list[float]:
    """The pauses of a stream that brings so many events a second, all that have come in one chunk."""
    result, delay = [], begin
    for _ in range(turns):
        there = int(delay * rate)
        gap = 0.0 if there else 1 / rate - delay
        delay = next_batch_delay(delay, gap, max(1, there) * EVENT)
        result.append(delay)
    return result


def test_a_single_event_is_never_delayed() -> None:
    assert next_batch_delay(0.0, 1.0, EVENT) == 0.0
    assert next_batch_delay(MAX_BATCH_DELAY, BUSY_GAP, EVENT) == 0.0


def test_two_events_in_a_row_start_a_batch() -> None:
    assert next_batch_delay(0.0, 0.001, EVENT) == MIN_BATCH_DELAY


def test_a_busy_stream_is_read_in_growing_batches() -> None:
    result = delays(2 * DENSE_BYTES_PER_SECOND / EVENT)
    assert result[-1] == MAX_BATCH_DELAY
    assert result == sorted(result)


def test_batches_end_soon_after_a_busy_stream_calms_down() -> None:
    result = delays(60, begin=MAX_BATCH_DELAY)
    assert result[0] < MAX_BATCH_DELAY
    assert 0.0 in result
    assert max(result[result.index(0.0) :]) <= MIN_BATCH_DELAY
