# SPDX-License-Identifier: Apache-2.0
"""Opens a client of the cluster that the flags name: by URL and token, or through Kubernetes."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, read_token
from slinky.slurm import SlurmClient

if TYPE_CHECKING:
    from slinky.kube import KubeClient


@dataclass(frozen=True)
class ConnectedCluster:
    """A client and how the cluster is called. `find_pod_job` finds the job of a pod, by name and namespace."""

    client: SlurmClient
    where: str
    find_pod_job: Callable[[str, str], Awaitable[str]] | None = None
    #: For a cluster of the operator: a client of its Kubernetes, and the namespace of its RestApi.
    kube: "KubeClient | None" = None
    namespace: str = ""

    async def job_of_pod(self, name: str, namespace: str) -> str:
        """The id of the job that a pod stands for. Raises `CommandError` without Kubernetes."""
        if self.find_pod_job is None:
            raise CommandError("a pod needs Kubernetes: leave out --url", ExitStatus.USAGE)
        return await self.find_pod_job(name, namespace)


@contextlib.asynccontextmanager
async def open_cluster(options: ClusterOptions) -> AsyncIterator[ConnectedCluster]:
    """Connect to the cluster that the flags name. Raises `CommandError`, `KubeError` or `SlurmError`."""
    if options.url:
        async with _plain_client(options) as client:
            yield ConnectedCluster(client, options.url)
        return
    # A plain Slurm needs no Kubernetes client, whose import costs more than everything else.
    from slinky.cli.access.kubernetes import open_kubernetes_cluster  # noqa: PLC0415

    async with open_kubernetes_cluster(options) as cluster:
        yield cluster


def _plain_client(options: ClusterOptions) -> SlurmClient:
    try:
        token = read_token(options.token_file)
    except OSError as error:
        raise CommandError(f"the token file {options.token_file} cannot be read: {error.strerror}") from error
    if not token:
        raise CommandError(
            "there is no token: set --token-file or SLURM_JWT, for example with `export $(scontrol token)`",
            ExitStatus.DENIED,
        )
    return SlurmClient(options.url, token)
