# SPDX-License-Identifier: Apache-2.0
"""The wall clock of a process: a jump of the machine's clock does not end what has a deadline at once."""

from hypothesis import given
from hypothesis import strategies as st

from slinky.observe.clock import JUMP_SECONDS, SETTLE_SECONDS, SystemClock

START = 1_800_000_000.0


class Machine:
    """The clocks of a machine."""

    def __init__(self) -> None:
        self.wall, self.monotonic = START, 50.0
        self.clock = SystemClock(lambda: self.wall, lambda: self.monotonic)

    def wait(self, seconds: float) -> float:
        """Let time pass; returns the time that the process believes in."""
        self.wall += seconds
        self.monotonic += seconds
        return self.clock.now().timestamp()


@given(st.floats(JUMP_SECONDS + 1, 10**8), st.booleans())
def test_a_jump_counts_only_after_it_has_held_for_a_while(jump: float, backwards: bool) -> None:
    machine = Machine()
    machine.wall += -jump if backwards else jump
    assert abs(machine.wait(0) - START) < 1
    assert abs(machine.wait(SETTLE_SECONDS - 1) - START) < SETTLE_SECONDS
    assert abs(machine.wait(2) - machine.wall) < 1


def test_a_jump_that_is_corrected_in_time_never_counts() -> None:
    machine = Machine()
    for _ in range(5):
        machine.wall += 86400
        assert machine.wait(SETTLE_SECONDS / 2) < START + 86400
        machine.wall -= 86400
        assert machine.wait(SETTLE_SECONDS / 2) < START + 86400


@given(st.lists(st.tuples(st.floats(0, 3600), st.floats(-JUMP_SECONDS / 2, JUMP_SECONDS / 2)), max_size=30))
def test_small_corrections_are_followed_at_once(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    for seconds, correction in steps:
        machine.wall += correction
        assert abs(machine.wait(seconds) - machine.wall) < 1
