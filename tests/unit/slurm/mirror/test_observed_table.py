# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.observed_table import FRESH, PATIENCE, SIGHTINGS, ListTrust, ObservedTable, Presence, judge


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
def test_empty_where_it_was_full_is_refused(known: int) -> None:
    assert judge(known, known, 0) is ListTrust.REFUSE
    assert judge(known, known, known) is ListTrust.BELIEVE


@pytest.mark.parametrize(
    ("known", "missing", "announced", "verdict"),
    [
        (100, 0, 0, ListTrust.BELIEVE),
        (100, 5, 0, ListTrust.BELIEVE),
        (100, 25, 0, ListTrust.BELIEVE),
        (100, 26, 0, ListTrust.DOUBT),
        (100, 99, 90, ListTrust.BELIEVE),
        (100, 99, 10, ListTrust.DOUBT),
        (8, 5, 0, ListTrust.BELIEVE),
        (8, 6, 0, ListTrust.DOUBT),
        (0, 0, 0, ListTrust.BELIEVE),
    ],
)
def test_a_great_loss_is_doubted(known: int, missing: int, announced: int, verdict: ListTrust) -> None:
    assert judge(known, missing, announced) is verdict


def test_an_empty_list_takes_nothing_away_and_makes_everything_unknown() -> None:
    table, clock = filled(10)
    for _ in range(100):
        clock.now += 10
        assert table.replace({}) == []
    assert len(table) == 10
    assert table.presence("n1") is Presence.UNKNOWN
    assert table.presence("never") is Presence.UNKNOWN
    assert table.doubt is not None
    assert table.age >= 1000


def test_a_full_list_ends_the_doubt() -> None:
    table, _ = filled(10)
    table.replace({})
    table.replace({f"n{index}": index for index in range(10)})
    assert table.doubt is None
    assert table.presence("n1") is Presence.PRESENT


def test_a_person_can_accept_a_total_loss() -> None:
    table, _ = filled(3)
    table.replace({})
    table.accept()
    assert len(table.replace({})) == 3
    assert table.presence("n1") is Presence.ABSENT


def test_a_great_loss_is_believed_when_it_lasts() -> None:
    table, clock = filled(10)
    for _ in range(SIGHTINGS - 1):
        assert table.replace({"n0": 0}) == []
    clock.now += PATIENCE
    assert len(table.replace({"n0": 0})) == 9


def test_an_announced_removal_is_believed_at_once() -> None:
    table, _ = filled(3)
    table.expect_removal(["n0", "n1", "n2"])
    assert [(key, after) for key, _, after in table.replace({})] == [("n0", None), ("n1", None), ("n2", None)]


def test_old_knowledge_is_no_knowledge() -> None:
    table, clock = filled(3)
    assert table.presence("x") is Presence.ABSENT
    clock.now += FRESH + 1
    assert table.presence("n1") is Presence.UNKNOWN
    assert table.presence("x") is Presence.UNKNOWN
    table.confirm()
    assert table.presence("x") is Presence.ABSENT


def test_nothing_is_known_before_the_first_sight() -> None:
    table: ObservedTable[int] = ObservedTable(Clock())
    assert not table.synced
    assert table.presence("x") is Presence.UNKNOWN
    assert table.age == float("inf")


def test_a_difference_that_does_not_matter_is_kept_but_not_told() -> None:
    table, _ = filled(2)
    changed = table.replace({"n0": 10, "n1": 21}, same=lambda before, after: before % 10 == after % 10)
    assert changed == []
    assert table["n0"] == 10
    assert table.replace({"n0": 11, "n1": 21}, same=lambda a, b: a % 10 == b % 10) == [("n0", 10, 11)]


def test_things_that_come_and_go_all_the_time_are_not_doubted() -> None:
    table: ObservedTable[int] = ObservedTable(Clock(), cautious=False)
    table.replace({"r": 1})
    assert table.replace({}) == [("r", 1, None)]
    assert table.presence("r") is Presence.ABSENT


def test_a_table_that_is_not_complete_calls_nothing_absent() -> None:
    table: ObservedTable[int] = ObservedTable(Clock(), complete=False)
    table.replace({"1": 1})
    assert table.presence("1") is Presence.PRESENT
    assert table.presence("2") is Presence.UNKNOWN
