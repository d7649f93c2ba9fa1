# SPDX-License-Identifier: Apache-2.0
"""Finds what a target of `slinky logs` has written, and prints it."""

import contextlib
import re
import time
from collections.abc import AsyncIterator

import typer

from slinky.cli.access.connection import ConnectedCluster, open_cluster
from slinky.cli.access.kubernetes import open_kubernetes
from slinky.cli.access.targets import find_job
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus
from slinky.cli.cluster.output import OutputFormat
from slinky.cli.pods.job_output import locate_output
from slinky.cli.pods.log_options import LogOptions
from slinky.cli.pods.native_output import print_native_output
from slinky.cli.pods.pod_logs import choose_containers, find_pod, find_pods_of_job, print_pod_logs
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.kube import KubeClient, Pod
from slinky.slurm import Job
from slinky.slurm.errors import SlurmNotFound


async def print_logs(options: ClusterOptions, job: str, target: str, how: LogOptions, namespace: str) -> None:
    """Print what a job, or the pod `target`, has written.

    Of the errors of several pods only the first is raised, because the command prints one sentence.
    """
    try:
        if job:
            await _job_logs(options, job, how, namespace)
        else:
            await _pod_logs(options, target, how, namespace)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _pod_logs(options: ClusterOptions, target: str, how: LogOptions, namespace: str) -> None:
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
            async with _open_kubernetes_of_bridge(options, name) as kube:
                if await _print_pods_of_job(kube, job, how, namespace):
                    return
        file = locate_output(job)
        if how.output is OutputFormat.NAME:
            typer.echo(f"{plain(file.host, 80)}:{plain(file.path, 400)}")
        else:
            await print_native_output(cluster, file, how)


@contextlib.asynccontextmanager
async def _open_kubernetes_of_bridge(options: ClusterOptions, job: str) -> AsyncIterator[KubeClient]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            kube = await stack.enter_async_context(open_kubernetes(options))
        except CommandError as error:
            text = f"job {job} is a job of the bridge, and the logs of its pods need KUBECONFIG or --kubeconfig"
            raise CommandError(text, error.status) from error
        yield kube


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
