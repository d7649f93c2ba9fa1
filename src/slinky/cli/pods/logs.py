# SPDX-License-Identifier: Apache-2.0
"""`slinky logs`: what a pod, the pods of a job, or a native job has written."""

import re
import time
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from slinky.cli.access.connection import ConnectedCluster, open_cluster
from slinky.cli.access.kubernetes import open_kubernetes
from slinky.cli.access.targets import find_job
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, cluster_app, fail, run_command
from slinky.cli.cluster.output import Output, OutputFormat
from slinky.cli.pods.job_output import locate_output
from slinky.cli.pods.log_options import LogOptions
from slinky.cli.pods.native_output import print_native_output
from slinky.cli.pods.pod_logs import choose_containers, find_pod, find_pods_of_job, print_pod_logs
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.kube import KubeClient, Pod
from slinky.slurm import Job
from slinky.slurm.errors import SlurmNotFound

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
    how = LogOptions(tail, follow, previous, container, output)
    match = _JOB.fullmatch(target)
    work = _job_logs(options, match[1], how, pod_namespace) if match else _pod_logs(options, target, how, pod_namespace)
    run_command(_without_group(work), endless=follow)


async def _without_group(work: Coroutine[Any, Any, None]) -> None:
    """Raise only the first error of several pods, because the command prints one sentence."""
    try:
        await work
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _pod_logs(options: ClusterOptions, target: str, how: LogOptions, namespace: str) -> None:
    if options.url:
        raise CommandError("a pod needs Kubernetes: leave out --url", ExitStatus.USAGE)
    async with open_kubernetes(options) as kube:
        pod = await find_pod(kube, target.removeprefix("pod/"), namespace or options.namespace or kube.namespace)
        if how.output is OutputFormat.NAME:
            _print_names([pod], how)
        else:
            await print_pod_logs(kube, [pod], how)


async def _job_logs(options: ClusterOptions, name: str, how: LogOptions, namespace: str) -> None:
    async with open_cluster(options) as cluster:
        job = await _read_job(cluster, name)
        if cluster.kube is not None and await _print_pods_of_job(cluster.kube, job, how, namespace):
            return
        if cluster.kube is None and "EXTERNAL_JOB" in job.flags:
            # The bridge of a plain Slurm: its pods are in the Kubernetes of the kubeconfig.
            async with open_kubernetes(options) as kube:
                if await _print_pods_of_job(kube, job, how, namespace):
                    return
        file = locate_output(job)
        if how.output is OutputFormat.NAME:
            typer.echo(f"{plain(file.host, 80)}:{plain(file.path, 400)}")
        else:
            await print_native_output(cluster, file, how)


async def _print_pods_of_job(kube: KubeClient, job: Job, how: LogOptions, namespace: str) -> bool:
    """Print the logs of the pods that a job stands for; false if there is none."""
    pods = await find_pods_of_job(kube, job.job_id, namespace)
    if how.output is OutputFormat.NAME:
        _print_names(pods, how)
    elif pods:
        await print_pod_logs(kube, pods, how)
    return bool(pods)


async def _read_job(cluster: ConnectedCluster, name: str) -> Job:
    number = re.split(r"[_+]", name)[0]
    try:
        components = await cluster.client.job_components(number)
    except SlurmNotFound as error:
        raise CommandError(
            f"slurmctld knows no job {name}; it forgets a job some minutes after its end (MinJobAge)",
            ExitStatus.NOT_FOUND,
        ) from error
    return find_job(name, QueueSnapshot(now=time.time(), jobs=components))


def _print_names(pods: list[Pod], how: LogOptions) -> None:
    for pod in pods:
        for container in choose_containers(pod, how.container):
            typer.echo(f"pod/{pod.metadata.name}/{container}")


app = cluster_app(logs)
