# SPDX-License-Identifier: Apache-2.0
"""`slinky hold`, `release` and `cancel`: change jobs after asking."""

from typing import TYPE_CHECKING, Annotated

import typer

from slinky.cli.access.connection import open_cluster
from slinky.cli.access.reader import read_snapshot
from slinky.cli.access.targets import find_job
from slinky.cli.cluster.command import ClusterOptions, CommandError, cluster_apps, run_command
from slinky.cli.cluster.confirmation import DryRun, Yes, confirm, explained_denial
from slinky.slurm import Job, JobRequest

if TYPE_CHECKING:
    from slinky.slurm import SlurmClient

Jobs = Annotated[list[str], typer.Argument(help="Jobs, as 123 or 123_4.")]


def hold(options: ClusterOptions, jobs: Jobs, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Hold pending jobs: they do not start until they are released."""
    run_command(_change("hold", options, jobs, yes=yes, dry_run=dry_run))


def release(options: ClusterOptions, jobs: Jobs, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Release held jobs."""
    run_command(_change("release", options, jobs, yes=yes, dry_run=dry_run))


def cancel(options: ClusterOptions, jobs: Jobs, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Cancel jobs, pending or running."""
    run_command(_change("cancel", options, jobs, yes=yes, dry_run=dry_run))


async def _change(verb: str, options: ClusterOptions, names: list[str], *, yes: bool, dry_run: bool) -> None:
    async with open_cluster(options) as cluster:
        snapshot = await read_snapshot(cluster.client, accounting=False)
        jobs = {name: find_job(name.removeprefix("job/"), snapshot) for name in names}
        actions = [f"{verb} {describe(job, name)}" for name, job in jobs.items()]
        for name, job in jobs.items():
            if problem := find_problem(verb, job):
                raise CommandError(f"job {name} {problem}")
        if confirm(actions, yes=yes, dry_run=dry_run):
            for name, job in jobs.items():
                needs = f"its user {job.user_name}, a coordinator of the account {job.account}, or an operator of Slurm"
                with explained_denial(cluster.client, f"{verb} job {name.removeprefix('job/')}", needs):
                    await apply_change(verb, cluster.client, job, name.removeprefix("job/"))


async def apply_change(verb: str, client: "SlurmClient", job: Job, name: str) -> None:
    """Hold, release or cancel a job; `name` may be a task of an array. Raises `SlurmError`."""
    if verb == "cancel":
        await client.cancel(name)
    else:
        await client.update_job(job.job_id, JobRequest(hold=verb == "hold"))


def describe(job: Job, name: str) -> str:
    """The job, and what is lost if it runs."""
    from slinky.insight.explain.job import subject

    text = subject(job).replace("Job ", "job ", 1) if "_" not in name else f"task {name} of {subject(job)}"
    return f"{text} ({job.state.base.lower()}{f' on {job.nodes}' if job.nodes else ''})"


def find_problem(verb: str, job: Job) -> str:
    """Why the verb makes no sense for the job; empty if it does."""
    if job.state.ended:
        return f"has ended ({str(job.state).lower()})"
    if verb == "hold" and not job.state.pending:
        return "runs already; only a pending job can be held"
    if verb == "hold" and job.hold:
        return "is held already"
    if verb == "release" and not job.hold and job.priority.value != 0:
        return "is not held"
    return ""


app = cluster_apps(hold, release, cancel)
