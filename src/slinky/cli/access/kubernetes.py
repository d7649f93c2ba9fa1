# SPDX-License-Identifier: Apache-2.0
"""Finds a Slurm cluster of the operator on Kubernetes: its RestApi, a Token, and the way to slurmrestd.

Inside a pod the client connects to the Service; elsewhere it sends requests through the API server's proxy of the
Service, so that nothing need be exposed.
"""

import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from slinky.api.restapi import REST_APIS, RestApi
from slinky.cli.access.connection import ConnectedCluster
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus, not_found, read_token
from slinky.insight.plain_text import listed
from slinky.kube import (
    CONFIG_MAPS,
    SECRETS,
    Forbidden,
    Key,
    KubeClient,
    Misconfigured,
    NotFound,
    connect,
)
from slinky.kube.light_transport import LightTransport
from slinky.kube.tls import CA_CERTIFICATE

if TYPE_CHECKING:
    from slinky.api.token import Token
    from slinky.slurm.transport.request_transport import RequestTransport

#: Users whose Tokens are preferred, because they see every job.
PREFERRED_USERS = ("slurm", "root")
#: The label with the Slurm job of a pod that the bridge schedules.
POD_JOB_LABEL = "scheduler.slinky.slurm.net/slurm-jobid"


@contextlib.asynccontextmanager
async def open_kubernetes_cluster(options: ClusterOptions) -> AsyncIterator[ConnectedCluster]:
    """Connect to the cluster that the flags name. Raises `CommandError`, `KubeError` or `SlurmError`."""
    async with contextlib.AsyncExitStack() as stack:
        kube = await stack.enter_async_context(open_kubernetes(options))
        rest_api = await find_rest_api(kube, options)
        token = await _find_token(kube, rest_api, options)
        where = f"{rest_api.metadata.namespace}/{rest_api.spec.controller_ref.name}"
        # Imported here: the command needs nothing of Slurm before Kubernetes has answered.
        from slinky.slurm.client import SlurmClient

        transport = await _open_transport(kube, rest_api, options)
        client = await stack.enter_async_context(SlurmClient(rest_api.url, token, transport=transport))
        yield ConnectedCluster(client, where, kube, rest_api.metadata.namespace)


@contextlib.asynccontextmanager
async def open_kubernetes(options: ClusterOptions) -> AsyncIterator[KubeClient]:
    """Connect to the API server that the flags name. Raises `CommandError` without a usable kubeconfig."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            kube = await stack.enter_async_context(
                connect(options.kubeconfig or None, options.context or None, open_transport=LightTransport)
            )
        except Misconfigured as error:
            if options.kubeconfig or options.context:
                raise CommandError(str(error), ExitStatus.USAGE) from error
            raise CommandError(
                f"no cluster is named: set --url and SLURM_JWT for a plain Slurm, or KUBECONFIG ({error})"
            ) from error
        yield kube


async def _open_transport(kube: KubeClient, rest_api: RestApi, options: ClusterOptions) -> "RequestTransport":
    from slinky.cli.access.service_proxy import ServiceProxyTransport
    from slinky.slurm.transport.light_http import LightHttpTransport

    if _in_pod(options):
        return LightHttpTransport(rest_api.url, tls=await read_authorities(kube, rest_api))
    return ServiceProxyTransport(kube.transport, rest_api)


async def read_authorities(kube: KubeClient, rest_api: RestApi) -> ssl.SSLContext | None:
    """The TLS context that trusts a RestApi; None if it has no TLS."""
    if not rest_api.spec.tls.enabled:
        return None
    config = await kube.get(CONFIG_MAPS, Key(rest_api.metadata.namespace, rest_api.ca_config_name))
    return ssl.create_default_context(cadata=config.data.get(CA_CERTIFICATE, ""))


async def find_rest_api(kube: KubeClient, options: ClusterOptions) -> RestApi:
    """The RestApi of the cluster that the flags name. Raises `CommandError` if there is none, or several."""
    namespace = options.namespace
    try:
        apis = await kube.list(REST_APIS, namespace=namespace)
    except NotFound as error:
        raise CommandError("this Kubernetes has no Slurm cluster: the operator's kinds are not installed") from error
    except Forbidden:
        if namespace:
            raise
        # A user of one namespace may not search the others.
        namespace = kube.namespace
        apis = await kube.list(REST_APIS, namespace=namespace)
    if options.cluster and apis:
        named = [api for api in apis if api.spec.controller_ref.name == options.cluster]
        if not named:
            raise not_found("Slurm cluster", options.cluster, [api.spec.controller_ref.name for api in apis])
        apis = named
    clusters = sorted({str(api.controller_key) for api in apis})
    if not apis:
        from slinky.api.controller import CONTROLLERS

        controllers = await kube.list(CONTROLLERS, namespace=namespace)
        controllers = [item for item in controllers if options.cluster in ("", item.metadata.name)]
        if controllers:
            raise CommandError(f"the Slurm cluster {controllers[0].metadata.key} has no RestApi; create one")
        where = f"the namespace {namespace}" if namespace else "this Kubernetes"
        other = "; -n names another namespace" if namespace != options.namespace else ""
        raise CommandError(f"there is no Slurm cluster in {where}{other}", ExitStatus.NOT_FOUND)
    if len(clusters) > 1:
        raise CommandError(
            f"there are several Slurm clusters: {listed(clusters)}; choose one with -n and -c", ExitStatus.USAGE
        )
    return min(apis, key=lambda api: (api.metadata.deleting, api.metadata.creation_timestamp, api.metadata.name))


async def _find_token(kube: KubeClient, rest_api: RestApi, options: ClusterOptions) -> str:
    if own := read_token(options.token_file):
        return own
    from slinky.api.token import TOKENS

    namespace = rest_api.metadata.namespace
    tokens = choose_tokens(await kube.list(TOKENS, namespace=namespace), options.slurm_user)
    for token in tokens:
        secret = await kube.find(SECRETS, Key(namespace, token.secret_name))
        if secret is not None and secret.data.get(token.secret_key):
            return secret.data[token.secret_key].decode().strip()
    user = f" of the user {options.slurm_user}" if options.slurm_user else ""
    raise CommandError(
        f"there is no Token{user} in the namespace {namespace}; create a Token or set SLURM_JWT", ExitStatus.DENIED
    )


def choose_tokens(tokens: "list[Token]", user: str) -> "list[Token]":
    """The Tokens to try, in order: those of the user, or first those of users that see every job."""
    wanted = [token for token in tokens if not user or token.username == user]

    def order(token: "Token") -> tuple[int, str]:
        name = token.username
        return PREFERRED_USERS.index(name) if name in PREFERRED_USERS else len(PREFERRED_USERS), token.metadata.name

    return sorted(wanted, key=order)


def _in_pod(options: ClusterOptions) -> bool:
    explicit = options.kubeconfig or options.context or os.environ.get("KUBECONFIG")
    return "KUBERNETES_SERVICE_HOST" in os.environ and not explicit
