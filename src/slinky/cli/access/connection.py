# SPDX-License-Identifier: Apache-2.0
"""Opens a client of the cluster that the flags name: by URL and token, or through Kubernetes."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, read_token
from slinky.insight.plain_text import plain

if TYPE_CHECKING:
    from slinky.kube import KubeClient
    from slinky.slurm import SlurmClient


@dataclass(frozen=True)
class ConnectedCluster:
    """A client and how the cluster is called."""

    client: "SlurmClient"
    where: str
    #: For a cluster of the operator: a client of its Kubernetes, and the namespace of its RestApi.
    kube: "KubeClient | None" = None
    namespace: str = ""

    @contextlib.asynccontextmanager
    async def open_kube(self, options: ClusterOptions) -> AsyncIterator["KubeClient"]:
        """The Kubernetes of the cluster; for a Slurm that was named by its URL, that of the kubeconfig.

        Raises `CommandError` if there is none.
        """
        if self.kube is not None:
            yield self.kube
            return
        from slinky.cli.access.kubernetes import open_kubernetes

        async with open_kubernetes(options) as kube:
            yield kube


@contextlib.asynccontextmanager
async def open_cluster(options: ClusterOptions) -> AsyncIterator[ConnectedCluster]:
    """Connect to the cluster that the flags name. Raises `CommandError`, `KubeError` or `SlurmError`."""
    if options.url:
        if not options.url.startswith(("http://", "https://", "unix:/")):
            raise CommandError(
                f"--url {plain(options.url, 80)!r} is not http://HOST:PORT, https://HOST:PORT or unix:/PATH",
                ExitStatus.USAGE,
            )
        async with _plain_client(options) as client:
            yield ConnectedCluster(client, options.url)
        return
    # A plain Slurm needs no Kubernetes client, whose import costs more than everything else.
    from slinky.cli.access.kubernetes import open_kubernetes_cluster

    async with open_kubernetes_cluster(options) as cluster:
        yield cluster


def _plain_client(options: ClusterOptions) -> "SlurmClient":
    from slinky.slurm.client import SlurmClient
    from slinky.slurm.transport.light_http import LightHttpTransport

    try:
        token = read_token(options.token_file)
    except OSError as error:
        raise CommandError(f"the token file {options.token_file} cannot be read: {error.strerror}") from error
    if not token:
        raise CommandError(
            "there is no token: set --token-file or SLURM_JWT, for example with `export $(scontrol token)`",
            ExitStatus.DENIED,
        )
    return SlurmClient(options.url, token, transport=LightHttpTransport(options.url))
