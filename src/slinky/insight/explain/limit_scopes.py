# SPDX-License-Identifier: Apache-2.0
"""Whose running jobs count against a limit, and how much of a resource a job requests or has. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slinky.insight.plain_text import counted, listed, megabytes, plain
from slinky.insight.tres import parse_tres
from slinky.slurm.model.values import Tres
from slinky.slurm.model.views import Job

#: Names of resources in sentences; others are shown as Slurm names them.
_NOUNS = {"cpu": "CPUs", "mem": "memory", "node": "nodes", "gres/gpu": "GPUs"}


@dataclass(frozen=True, slots=True)
class LimitScope:
    """Whose running jobs count against a limit, and how a sentence names the limit."""

    owner: str
    blocker: str
    jobs: tuple[Job, ...]

    def part(self, noun: str, counts: Callable[[Job], bool]) -> "LimitScope":
        """The jobs of one user or account, for limits that each user or account has."""
        jobs = tuple(job for job in self.jobs if counts(job))
        return LimitScope(f"{self.owner} for the {noun}", self.blocker, jobs)


def is_limited(limit: Tres) -> bool:
    """Whether a limit is set."""
    return limit.count is not None and limit.count >= 0


def holders_text(jobs: Iterable[Job], name: str) -> str:
    """How many jobs of which users have a resource."""
    holders = [job for job in jobs if allocated(job, name)]
    users = sorted({job.user_name or "hidden" for job in holders})
    return f"{counted(len(holders), 'job')} of {listed(users)}" if holders else "no job"


def tres_name(limit: Tres) -> str:
    """The name of a resource as in Slurm's texts: `cpu`, `gres/gpu:a100`."""
    return f"{limit.type}/{limit.name}" if limit.name else limit.type


def requested(job: Job, name: str) -> int:
    """How much of a resource a job requests; memory in megabytes."""
    return tres_amount(job.tres_req_str, name)


def allocated(job: Job, name: str) -> int:
    """How much of a resource a running job has; memory in megabytes."""
    return tres_amount(job.tres_alloc_str or job.tres_req_str, name)


def tres_amount(text: str, name: str) -> int:
    """One amount of a TRES text; memory in megabytes."""
    amounts = parse_tres(text)
    if name in ("cpu", "node"):
        return amounts.cpus if name == "cpu" else amounts.nodes
    if name == "mem":
        return amounts.memory_bytes // 2**20
    if name.startswith("gres/"):
        kind, _, type_ = name.removeprefix("gres/").partition(":")
        return amounts.gres.get((kind, type_), 0) if type_ else amounts.gres_count(kind)
    values = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    value = values.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0


def amount_noun(name: str) -> str:
    """The noun of a resource."""
    return _NOUNS.get(name, name)


def amount_text(limit: Tres, count: int) -> str:
    """An amount of the resource of a limit: `3 GPUs`, `1 GPU`, `1.5 GB of memory`."""
    name = tres_name(limit)
    noun = plain(amount_noun(name), 60)
    if name == "mem":
        return f"{megabytes(count)} of memory"
    return f"{count} {noun.removesuffix('s') if count == 1 and name in _NOUNS else noun}"
