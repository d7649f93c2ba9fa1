# SPDX-License-Identifier: Apache-2.0
"""`slinky gather`: a support bundle: the facts about a cluster in one file."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from slinky import __version__
from slinky.cli.access.connection import open_cluster
from slinky.cli.bundle.archive import BundleWriter
from slinky.cli.bundle.redaction import Redactor
from slinky.cli.cluster.command import (
    ClusterOptions,
    CommandError,
    ExitStatus,
    cluster_app,
    fail,
    read_token,
    run_command,
)
from slinky.cli.cluster.output import Output, OutputFormat, print_document
from slinky.insight.plain_text import counted, plain

LIMIT_MEGABYTES = 100
README = """A support bundle of a Slurm cluster, written by slinky {version}.

kubernetes/   objects of the operator's kinds and of those that it creates, events; of Secrets the names and sizes
logs/         the last lines of each container
slurm/        answers of slurmrestd: configuration, nodes, partitions, jobs, statistics
doctor.txt    what `slinky doctor` finds
summary.json  what is in this file, what could not be read, what was left out

Values of Secrets, tokens, passwords and keys are replaced by {redacted}. Names of users, jobs, nodes and addresses are
not: look through the files before you pass them on.
"""


def gather(
    options: ClusterOptions,
    file: Annotated[str, typer.Option("--file", "-f", help="File to write; by default a new one in this folder.")] = "",
    limit: Annotated[
        int, typer.Option("--limit-mb", min=1, max=2000, help="Megabytes of all entries together, not compressed.")
    ] = LIMIT_MEGABYTES,
    no_logs: Annotated[bool, typer.Option("--no-logs", help="Leave out the logs of pods.")] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Write a support bundle of a cluster.

    It has the objects of the operator's kinds, events, the ends of logs, what slurmrestd reports, versions, and the
    findings of the doctor. Values of Secrets, tokens, passwords and keys are replaced; what cannot be read is named.
    """
    path = choose_path(file, time.time())
    if path.exists():
        fail(f"{path} exists; choose another name with --file", ExitStatus.USAGE)
    run_command(_gather(options, path, limit * 2**20, not no_logs, output))


def choose_path(file: str, now: float) -> Path:
    """The file to write."""
    name = file or time.strftime("slinky-gather-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime(now))
    return Path(name if name.endswith(".tar.gz") else f"{name}.tar.gz")


async def _gather(options: ClusterOptions, path: Path, limit: int, with_logs: bool, output: OutputFormat) -> None:
    problems: list[str] = []
    token = read_token(options.token_file)
    redactor = Redactor([token.encode()] if token else [])
    try:
        with BundleWriter(path, redactor, limit=limit, now=time.time()) as bundle:
            if not options.url:
                await _add_kubernetes(options, bundle, problems, with_logs)
            await _add_slurm(options, bundle, problems)
            if not bundle.entries:
                raise CommandError(
                    f"nothing could be read: {'; '.join(merge_causes(problems))}", ExitStatus.UNREACHABLE
                )
            summary = summarize(bundle, problems)
            readme = README.format(version=__version__, redacted="[redacted]")
            bundle.add("README.txt", readme, always=True)
            print_to_bundle(bundle, summary)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
    _report(path, summary, output)


async def _add_kubernetes(options: ClusterOptions, bundle: BundleWriter, problems: list[str], with_logs: bool) -> None:
    from slinky.cli.access.kubernetes import open_kubernetes
    from slinky.cli.bundle import kubernetes_facts as facts

    async with open_kubernetes(options) as kube:
        namespaces = await facts.find_namespaces(kube, options.namespace, problems)
        own = read_token(options.token_file)
        values = await facts.read_secret_values(kube, namespaces, problems)
        bundle.redactor = Redactor([*values, *([own.encode()] if own else [])])
        await facts.add_nodes(kube, bundle, problems)
        for namespace in namespaces:
            await facts.add_objects(kube, bundle, namespace, problems)
        if with_logs:
            for namespace in namespaces:
                await facts.add_logs(kube, bundle, namespace, problems)


async def _add_slurm(options: ClusterOptions, bundle: BundleWriter, problems: list[str]) -> None:
    from slinky.cli.bundle.slurm_facts import add_slurm
    from slinky.kube.errors import KubeError
    from slinky.slurm import SlurmError

    try:
        async with open_cluster(options) as cluster:
            await add_slurm(cluster, bundle, problems)
    except (CommandError, KubeError, SlurmError) as error:
        problems.append(f"slurm: {plain(str(error), 300)}")


def merge_causes(problems: list[str]) -> list[str]:
    """Each cause once, after the names of everything that it concerns."""
    names: dict[str, list[str]] = {}
    for problem in problems:
        name, _, cause = problem.partition(": ")
        names.setdefault(cause, []).append(name)
    return [f"{', '.join(concerned)}: {cause}" for cause, concerned in names.items()]


def summarize(bundle: BundleWriter, problems: list[str]) -> dict[str, Any]:
    """What the bundle has and what it lacks."""
    return {
        "entries": len(bundle.entries),
        "bytes": bundle.size,
        "notRead": [bundle.redactor.redact_text(problem) for problem in problems],
        "leftOut": list(bundle.left_out),
    }


def print_to_bundle(bundle: BundleWriter, summary: dict[str, Any]) -> None:
    """Add the summary with the list of entries."""
    import json

    bundle.add("summary.json", json.dumps(summary | {"files": bundle.entries}, indent=1) + "\n", always=True)


def _report(path: Path, summary: dict[str, Any], output: OutputFormat) -> None:
    size = path.stat().st_size
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print_document({"file": str(path), "size": size, **summary}, output)
        return
    if output is OutputFormat.NAME:
        typer.echo(str(path))
        return
    typer.echo(f"{path}: {counted(summary['entries'], 'file')}, {size // 1024 + 1} KB, without values of secrets")
    for problem in summary["notRead"]:
        typer.echo(f"not read: {plain(problem, 400)}", err=True)
    if summary["leftOut"]:
        typer.echo(f"left out beyond --limit-mb: {counted(len(summary['leftOut']), 'file')}", err=True)


app = cluster_app(gather)
