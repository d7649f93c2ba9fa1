# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.errors import (
    ERROR_TYPES,
    AuthError,
    Busy,
    DatabaseUnreachable,
    Problem,
    Rejected,
    Retryable,
    SlurmConflict,
    SlurmctldUnreachable,
    SlurmError,
    SlurmNotFound,
    error_for,
)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (2017, SlurmNotFound),
        (2018, SlurmNotFound),
        (2011, SlurmConflict),
        (2168, SlurmConflict),
        (2016, Busy),
        (2013, Busy),
        (1007, AuthError),
        (1800, SlurmctldUnreachable),
        (7000, DatabaseUnreachable),
    ],
)
def test_a_number_has_an_error_type(number: int, kind: type[SlurmError]) -> None:
    assert type(error_for([Problem(number, "text", "source")])) is kind


@given(st.integers().filter(lambda number: number not in ERROR_TYPES))
def test_an_unknown_number_is_rejected_and_never_not_found(number: int) -> None:
    error = error_for([Problem(number, "text", "source")])
    assert type(error) is Rejected
    assert (error.number, error.text, error.source) == (number, "text", "source")


def test_the_first_known_number_decides_and_the_others_are_kept() -> None:
    error = error_for([Problem(0, "wrapper"), Problem(2017, "no such job"), Problem(9, "more")])
    assert isinstance(error, SlurmNotFound)
    assert [other.number for other in error.others] == [0, 9]


def test_an_error_without_text_is_still_an_error() -> None:
    assert type(error_for([])) is Rejected


def test_no_retryable_error_is_a_rejection() -> None:
    for kind in ERROR_TYPES.values():
        assert not (issubclass(kind, Retryable) and issubclass(kind, Rejected))


def test_a_lost_response_may_be_applied_but_a_refused_connection_cannot() -> None:
    lost, refused = error_for([Problem(1802)]), error_for([Problem(1800)])
    assert isinstance(lost, SlurmctldUnreachable)
    assert lost.maybe_applied
    assert isinstance(refused, SlurmctldUnreachable)
    assert not refused.maybe_applied


def test_a_connection_to_the_database_that_was_refused_is_an_outage_and_nothing_else_is() -> None:
    assert type(error_for([Problem(111, "Connection refused", "slurmdb_tres_get")])) is DatabaseUnreachable
    assert type(error_for([Problem(111, "Connection refused", "op_handler_nodes")])) is Rejected
    assert type(error_for([Problem(13, "Permission denied", "slurmdb_tres_get")])) is Rejected
