# SPDX-License-Identifier: Apache-2.0
"""`slinky logs`: what a pod, the pods of a job, or a native job has written."""

import re
from typing import Annotated

import typer

from slinky.cli.cluster.command import ClusterOptions, ExitStatus, cluster_app, fail, run_command
from slinky.cli.cluster.output import Output, OutputFormat
from slinky.cli.pods.log_options import LogOptions

TAIL_LINES = 200
_JOB = re.compile(r"(?:job/)?(\d+(?:[_+]\d+)?)")


def logs(
    options: ClusterOptions,
    target: Annotated[str, typer.Argument(help="Job (123, 123_4, job/123) or pod (NAME, pod/NAME).")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print further lines until the job or pod ends.")
    ] = False,
    tail: Annotated[
        int, typer.Option(min=0, max=10**7, help="Lines of the end to print, for each container.")
    ] = TAIL_LINES,
    container: Annotated[
        str, typer.Option(help="Container of the pods; by default every one but init containers.")
    ] = "",
    previous: Annotated[bool, typer.Option("--previous", help="The container before its last restart.")] = False,
    pod_namespace: Annotated[str, typer.Option(help="Namespace of pods; by default that of the context.")] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Print what a job or a pod has written.

    For a job of the bridge these are the logs of its pods. For a native job it is the file of its standard output, read
    where it is mounted: here, or in the worker pod that ran the job. `-o json` prints one object for each line,
    `-o name` only where the lines would come from.
    """
    if output is OutputFormat.YAML:
        fail("logs are lines: use -o text, wide, json or name", ExitStatus.USAGE)
    if options.url and not _JOB.fullmatch(target):
        fail("a pod needs Kubernetes: leave out --url", ExitStatus.USAGE)
    from slinky.cli.pods.log_sources import print_logs

    match, how = _JOB.fullmatch(target), LogOptions(tail, follow, previous, container, output)
    run_command(print_logs(options, match[1] if match else "", target, how, pod_namespace), endless=follow)


app = cluster_app(logs)
