# SPDX-License-Identifier: Apache-2.0
"""What calls return beyond plain views, and how an answer becomes one of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from slinky.slurm.errors import Malformed, Problem, Rejected, SlurmNotFound
from slinky.slurm.model.responses import Response, SubmitResponse
from slinky.slurm.model.statistics import ConfMeta

log = logging.getLogger(__name__)

#: Which functions of slurmrestd mean "not there" when they complain without a number.
ABSENCE = frozenset({"_dump_nodes", "slurm_load_reservations()"})

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """A list and the server's time of it, to be handed back as `since`."""

    items: tuple[T, ...]
    at: int


class Submitted(NamedTuple):
    """A job that Slurm has accepted. Warnings name fields that it ignored."""

    job_id: int
    message: str = ""
    warnings: tuple[Problem, ...] = ()


class Conf(NamedTuple):
    """The configuration that slurmctld runs with."""

    settings: Mapping[str, Any]
    meta: ConfMeta


def job_id(job: int | str) -> str:
    """A job id for `jobs/state/`, which takes a SLUID or a comma to mean every job."""
    text = str(job)
    if not text or not all(part.isdecimal() for part in text.replace("+", "_").split("_")):
        raise ValueError(f"{text!r} is not a job id")
    return text


def submitted(answer: SubmitResponse) -> Submitted:
    """The job that an answer says was accepted."""
    if not answer.job_id:
        raise Malformed("a submission was accepted without a job id", maybe_applied=True)
    return Submitted(answer.job_id, answer.job_submit_user_msg or "", told(answer))


def told(answer: Response) -> tuple[Problem, ...]:
    """Slurm's warnings, which are also logged: they are the only sign of a field that it ignored."""
    for caution in answer.cautions:
        log.info("slurm warns: %s", caution)
    return answer.cautions


@contextmanager
def absence(what: str, number: int) -> Iterator[None]:
    """Asked for one node or reservation that is not there, slurmrestd fails with number 0 and a 200."""
    try:
        yield
    except Rejected as error:
        if error.number == 0 and error.source in ABSENCE:
            raise SlurmNotFound(Problem(number, f"no {what}", error.source)) from error
        raise


def only(found: tuple[T, ...] | None, number: int, what: str) -> T:
    """The first of what was found; raises `NotFound` if there is none."""
    if not found:
        raise SlurmNotFound(Problem(number, f"no {what}"))
    return found[0]
