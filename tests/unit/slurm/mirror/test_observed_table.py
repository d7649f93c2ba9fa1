# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.observed_table import (
    CONFIRMATION_SECONDS,
    CONFIRMATIONS,
    FRESH_SECONDS,
    LossDecision,
    ObservedTable,
    Presence,
    decide_loss,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def filled(count: int) -> tuple[ObservedTable[int], Clock]:
    clock = Clock()
    table: ObservedTable[int] = ObservedTable(clock)
    table.replace({f"n{index}": index for index in range(count)})
    return table, clock


@given(st.integers(1, 10_000))
def test_an_empty_list_where_there_were_objects_is_rejected(known: int) -> None:
    assert decide_loss(known, known, 0) is LossDecision.REJECT
    assert decide_loss(known, known, known) is LossDecision.ACCEPT


@pytest.mark.parametrize(
    ("known", "missing", "expected", "decision"),
    [
        (100, 0, 0, LossDecision.ACCEPT),
        (100, 5, 0, LossDecision.ACCEPT),
        (100, 25, 0, LossDecision.ACCEPT),
        (100, 26, 0, LossDecision.CONFIRM),
        (100, 99, 90, LossDecision.ACCEPT),
        (100, 99, 10, LossDecision.CONFIRM),
        (8, 5, 0, LossDecision.ACCEPT),
        (8, 6, 0, LossDecision.CONFIRM),
        (0, 0, 0, LossDecision.ACCEPT),
    ],
)
def test_a_great_loss_must_be_confirmed(known: int, missing: int, expected: int, decision: LossDecision) -> None:
    assert decide_loss(known, missing, expected) is decision


def test_an_empty_list_removes_nothing_and_makes_everything_unknown() -> None:
    table, clock = filled(10)
    for _ in range(100):
        clock.now += 10
        assert table.replace({}) == []
    assert len(table) == 10
    assert table.presence("n1") is Presence.UNKNOWN
    assert table.presence("never") is Presence.UNKNOWN
    assert table.unconfirmed_loss is not None
    assert table.age >= 1000


def test_a_full_list_clears_the_unconfirmed_loss() -> None:
    table, _ = filled(10)
    table.replace({})
    table.replace({f"n{index}": index for index in range(10)})
    assert table.unconfirmed_loss is None
    assert table.presence("n1") is Presence.PRESENT


def test_an_administrator_can_accept_a_total_loss() -> None:
    table, _ = filled(3)
    table.replace({})
    table.accept_loss()
    assert len(table.replace({})) == 3
    assert table.presence("n1") is Presence.ABSENT


def test_a_great_loss_is_accepted_when_it_lasts() -> None:
    table, clock = filled(10)
    for _ in range(CONFIRMATIONS - 1):
        assert table.replace({"n0": 0}) == []
    clock.now += CONFIRMATION_SECONDS
    assert len(table.replace({"n0": 0})) == 9


def test_an_expected_removal_is_accepted_at_once() -> None:
    table, _ = filled(3)
    table.expect_removal(["n0", "n1", "n2"])
    assert [(key, after) for key, _, after in table.replace({})] == [("n0", None), ("n1", None), ("n2", None)]


def test_an_old_list_proves_neither_presence_nor_absence() -> None:
    table, clock = filled(3)
    assert table.presence("x") is Presence.ABSENT
    clock.now += FRESH_SECONDS + 1
    assert table.presence("n1") is Presence.UNKNOWN
    assert table.presence("x") is Presence.UNKNOWN
    table.confirm()
    assert table.presence("x") is Presence.ABSENT


def test_nothing_is_known_before_the_first_list() -> None:
    table: ObservedTable[int] = ObservedTable(Clock())
    assert not table.synced
    assert table.presence("x") is Presence.UNKNOWN
    assert table.age == float("inf")


def test_an_irrelevant_difference_is_stored_but_not_reported() -> None:
    table, _ = filled(2)
    changed = table.replace({"n0": 10, "n1": 21}, is_same=lambda before, after: before % 10 == after % 10)
    assert changed == []
    assert table["n0"] == 10
    assert table.replace({"n0": 11, "n1": 21}, is_same=lambda a, b: a % 10 == b % 10) == [("n0", 10, 11)]


def test_a_table_without_confirmation_accepts_every_loss() -> None:
    table: ObservedTable[int] = ObservedTable(Clock(), confirm_losses=False)
    table.replace({"r": 1})
    assert table.replace({}) == [("r", 1, None)]
    assert table.presence("r") is Presence.ABSENT


def test_an_incomplete_table_reports_nothing_as_absent() -> None:
    table: ObservedTable[int] = ObservedTable(Clock(), complete=False)
    table.replace({"1": 1})
    assert table.presence("1") is Presence.PRESENT
    assert table.presence("2") is Presence.UNKNOWN
