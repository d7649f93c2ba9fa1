# SPDX-License-Identifier: Apache-2.0
"""What the client's methods return besides plain views, and the functions that build it from a response."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from slinky.observe import Log
from slinky.slurm.errors import Malformed, Problem, Rejected, SlurmNotFound
from slinky.slurm.model.responses import Response, SubmitResponse
from slinky.slurm.model.statistics import ConfMeta
from slinky.slurm.model.views import Job

log = Log("slinky.slurm.results")

#: Functions of slurmrestd whose error without a number means "not found".
NOT_FOUND_SOURCES = frozenset({"_dump_nodes", "slurm_load_reservations()"})

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """A list and the server's time of it, which a later call takes as `since`."""

    items: tuple[T, ...]
    at: int


class SubmittedJob(NamedTuple):
    """A job that Slurm has accepted. Warnings name fields that Slurm ignored."""

    job_id: int
    message: str = ""
    warnings: tuple[Problem, ...] = ()


class Conf(NamedTuple):
    """The configuration that slurmctld runs with."""

    settings: Mapping[str, Any]
    meta: ConfMeta


def checked_job_id(job: int | str) -> str:
    """A job id for `jobs/state/`. Raises `ValueError` for a SLUID or a comma, which that path reads as "every job"."""
    text = str(job)
    if not text or not all(part.isascii() and part.isdecimal() for part in text.replace("+", "_").split("_")):
        raise ValueError(f"{text!r} is not a job id")
    return text


def read_submission(response: SubmitResponse) -> SubmittedJob:
    """The job that Slurm has accepted."""
    if not response.job_id:
        raise Malformed("a submission was accepted without a job id", maybe_applied=True)
    return SubmittedJob(response.job_id, response.job_submit_user_msg or "", log_warnings(response))


def log_warnings(response: Response) -> tuple[Problem, ...]:
    """Log and return Slurm's warnings: they are the only sign of a field that Slurm ignored."""
    warnings = response.problems_from_warnings
    for warning in warnings:
        log.info("Slurm returned a warning", warning=warning)
    return warnings


@contextmanager
def translate_absence(description: str, number: int) -> Iterator[None]:
    """Raise `SlurmNotFound` where slurmrestd reports a missing node or reservation as error 0 in a 200 response."""
    try:
        yield
    except Rejected as error:
        if error.number == 0 and error.source in NOT_FOUND_SOURCES:
            raise SlurmNotFound(Problem(number, f"no {description}", error.source)) from error
        raise


def component_of(components: tuple[Job, ...], job: int | str) -> Job:
    """The component with this id; the leader of a heterogeneous job, or any task of an array, if none has it."""
    return next((component for component in components if str(component.job_id) == str(job)), components[0])


def first_or_not_found(items: tuple[T, ...] | None, number: int, description: str) -> T:
    """The first item. Raises `SlurmNotFound` if there is none."""
    if not items:
        raise SlurmNotFound(Problem(number, f"no {description}"))
    return items[0]
