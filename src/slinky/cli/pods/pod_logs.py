# SPDX-License-Identifier: Apache-2.0
"""Finds the pods of a job and prints the logs of their containers."""

import asyncio
from urllib.parse import urlencode

from slinky.cli.access.kubernetes import POD_JOB_LABEL
from slinky.cli.cluster.command import CommandError, ExitStatus, not_found
from slinky.cli.pods.line_printer import LinePrinter
from slinky.cli.pods.log_options import LogOptions
from slinky.insight.plain_text import listed, plain
from slinky.kube import PODS, Forbidden, Key, KubeClient, Pod
from slinky.kube.errors import api_error

#: Seconds without a line after which a followed log counts as broken.
FOLLOW_IDLE_SECONDS = 7 * 86400.0


async def find_pod(kube: KubeClient, name: str, namespace: str) -> Pod:
    """A pod by its name. Raises `CommandError` with near names if there is none."""
    pod = await kube.find(PODS, Key(namespace, name))
    if pod is None:
        pods = [other.metadata.name for other in await kube.list(PODS, namespace=namespace)]
        raise not_found(f"pod in {namespace}", name, pods)
    return pod


async def list_pods(kube: KubeClient, labels: str, namespace: str, fallback: str) -> list[Pod]:
    """Pods with these labels in a namespace; without one in all, or only in `fallback` if the user may not list all."""
    try:
        return await kube.list(PODS, namespace=namespace, labels=labels)
    except Forbidden:
        if namespace:
            raise
        return await kube.list(PODS, namespace=fallback, labels=labels)


async def find_pods_of_job(kube: KubeClient, job_id: int, namespace: str) -> list[Pod]:
    """The pods that a job of the bridge stands for; none for a native job."""
    pods = await list_pods(kube, f"{POD_JOB_LABEL}={job_id}", namespace, kube.namespace)
    return sorted(pods, key=lambda pod: pod.metadata.key)


def choose_containers(pod: Pod, wanted: str) -> list[str]:
    """The containers of a pod that have started. Raises `CommandError` if there is none, with the cause."""
    key = pod.metadata.key
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    names = [status.name for status in statuses]
    if wanted and wanted not in names and names:
        raise CommandError(
            f"the pod {key} has no container {plain(wanted, 80)}; it has {listed(names)}", ExitStatus.NOT_FOUND
        )
    own = pod.status.container_statuses
    chosen = [status for status in (statuses if wanted else own) if not wanted or status.name == wanted]
    started = [status.name for status in chosen if status.state.waiting is None or status.last_state.terminated]
    if started:
        return started
    waiting = next((status.state.waiting for status in chosen if status.state.waiting), None)
    cause = f"{waiting.reason} {waiting.message}".strip() if waiting else pod.status.phase or "Pending"
    raise CommandError(f"the pod {key} has not started ({plain(cause)}); see `slinky explain pod/{key.name}`")


async def print_pod_logs(kube: KubeClient, pods: list[Pod], options: LogOptions) -> None:
    """Print the logs of some pods, one after the other, or at the same time if they are followed."""
    sources = [(pod.metadata.key, name) for pod in pods for name in choose_containers(pod, options.container)]
    prefixed = len(sources) > 1
    printers = [LinePrinter(f"{key.name}/{name}", options.output, prefixed=prefixed) for key, name in sources]
    if not options.follow:
        for (key, name), printer in zip(sources, printers, strict=True):
            await print_container_log(kube, key, name, options, printer)
        return
    async with asyncio.TaskGroup() as tasks:
        for (key, name), printer in zip(sources, printers, strict=True):
            tasks.create_task(print_container_log(kube, key, name, options, printer))


async def print_container_log(
    kube: KubeClient, pod: Key, container: str, options: LogOptions, printer: LinePrinter
) -> None:
    """Print the log of one container. Raises `ApiError` or `Unreachable`."""
    query = {"container": container, "tailLines": options.tail}
    query |= {"follow": "true"} if options.follow else {}
    query |= {"previous": "true"} if options.previous else {}
    path = f"{PODS.path(pod, subresource='log')}?{urlencode(query)}"
    idle = FOLLOW_IDLE_SECONDS if options.follow else kube.deadline
    async with kube.transport.stream(path, deadline=kube.deadline, idle=idle) as stream:
        if stream.status != 200:
            raise api_error(stream.status, await stream.read(), f"GET {path}")
        async for chunk in stream.chunks():
            printer.feed(chunk)
    printer.finish()
