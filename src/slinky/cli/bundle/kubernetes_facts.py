# SPDX-License-Identifier: Apache-2.0
"""What a bundle holds of Kubernetes: objects of the operator's kinds, events, pods and their logs, names of Secrets."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.cli.bundle.archive import BundleWriter
from slinky.insight.plain_text import plain
from slinky.kube import CONFIG_MAPS, DEPLOYMENTS, EVENTS, NODES, PODS, SECRETS, STATEFUL_SETS, KubeClient, KubeError
from slinky.kube import Resource as KubeResource

KINDS: tuple[KubeResource[Any], ...] = (CONTROLLERS, ACCOUNTINGS, REST_APIS, NODE_SETS, LOGIN_SETS, TOKENS)
OTHERS: tuple[KubeResource[Any], ...] = (PODS, DEPLOYMENTS, STATEFUL_SETS, CONFIG_MAPS)
#: Objects of one list, pods with logs, lines and bytes of one log at most.
OBJECTS_MAX, LOG_PODS_MAX, LOG_LINES, LOG_BYTES = 2000, 100, 2000, 512 * 1024

Problems = list[str]


async def attempt(problems: Problems, what: str, read: Callable[[], Awaitable[None]]) -> None:
    """Carry out a read; an error is noted, because a bundle is needed most when something is broken."""
    try:
        await read()
    except KubeError as error:
        problems.append(f"{what}: {plain(str(error), 300)}")


async def read_secret_values(kube: KubeClient, namespaces: list[str], problems: Problems) -> list[bytes]:
    """The values of all Secrets of the namespaces, to find them in other texts. They are never written."""
    values: list[bytes] = []
    for namespace in namespaces:
        try:
            values += [v for secret in await kube.list(SECRETS, namespace=namespace) for v in secret.data.values()]
        except KubeError as error:
            problems.append(
                f"the Secrets of {namespace} cannot be read ({plain(str(error), 200)}): texts are redacted by their "
                "form alone"
            )
    return values


async def find_namespaces(kube: KubeClient, namespace: str, problems: Problems) -> list[str]:
    """The namespace of the flags, or all that have an object of the operator."""
    if namespace:
        return [namespace]
    found: set[str] = set()
    for resource in KINDS:
        try:
            found |= {item.metadata.namespace for item in await kube.list(resource)}
        except KubeError as error:
            problems.append(f"{resource.plural}: {plain(str(error), 300)}")
    return sorted(found) or [kube.namespace]


async def add_objects(kube: KubeClient, bundle: BundleWriter, namespace: str, problems: Problems) -> None:
    """Add every object of the kinds of the operator and of the kinds that it creates, one list per file."""
    for resource in (*KINDS, *OTHERS):

        async def read(resource: KubeResource[Any] = resource) -> None:
            items = await _raw_items(kube, resource, namespace)
            bundle.add(f"kubernetes/{namespace}/{resource.plural}.json", _text(bundle, items))

        await attempt(problems, f"{resource.plural} of {namespace}", read)

    async def read_events() -> None:
        events = await _raw_items(kube, EVENTS, namespace)
        events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        bundle.add(f"kubernetes/{namespace}/events.json", _text(bundle, events))

    async def read_secrets() -> None:
        names = {
            secret.metadata.name: {key: f"{len(value)} bytes" for key, value in secret.data.items()}
            for secret in await kube.list(SECRETS, namespace=namespace)
        }
        # Names of keys, and sizes of values.
        bundle.add(f"kubernetes/{namespace}/secrets.txt", "\n".join(_secret_lines(names)) + "\n")

    await attempt(problems, f"events of {namespace}", read_events)
    await attempt(problems, f"secrets of {namespace}", read_secrets)


async def add_nodes(kube: KubeClient, bundle: BundleWriter, problems: Problems) -> None:
    """Add the nodes and the version of the API server."""

    async def read() -> None:
        bundle.add("kubernetes/version.json", (await kube.send("GET", "/version")).decode(errors="replace"))
        bundle.add("kubernetes/nodes.json", _text(bundle, await _raw_items(kube, NODES, "")))

    await attempt(problems, "nodes", read)


async def add_logs(kube: KubeClient, bundle: BundleWriter, namespace: str, problems: Problems) -> None:
    """Add the end of the log of every container, and of the run before its last restart."""
    try:
        pods = await kube.list(PODS, namespace=namespace)
    except KubeError:
        return  # already noted with the objects
    if len(pods) > LOG_PODS_MAX:
        problems.append(f"logs of {namespace}: only those of {LOG_PODS_MAX} of {len(pods)} pods")
    for pod in pods[:LOG_PODS_MAX]:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            for is_previous in (False, True):
                if (is_previous and not status.restart_count) or (not is_previous and status.state.waiting):
                    continue
                name = f"logs/{namespace}/{pod.metadata.name}/{status.name}{'.previous' if is_previous else ''}.log"
                query = {"container": status.name, "tailLines": LOG_LINES, "limitBytes": LOG_BYTES}
                query |= {"previous": "true"} if is_previous else {}
                path = f"{PODS.path(pod.metadata.key, subresource='log')}?{urlencode(query)}"

                async def read(name: str = name, path: str = path) -> None:
                    bundle.add(name, (await kube.send("GET", path, max_retries=0)).decode(errors="replace"))

                await attempt(problems, name, read)


async def _raw_items(kube: KubeClient, resource: KubeResource[Any], namespace: str) -> list[dict[str, Any]]:
    body = await kube.send("GET", resource.path(namespace=namespace), {"limit": OBJECTS_MAX})
    return list(msgspec.json.decode(body, type=_RawList).items or ())


class _RawList(msgspec.Struct, frozen=True):
    items: list[dict[str, Any]] | None = None


def _text(bundle: BundleWriter, items: list[dict[str, Any]]) -> str:
    return json.dumps(bundle.redactor.redact_object(items), indent=1) + "\n"


def _secret_lines(names: dict[str, dict[str, str]]) -> list[str]:
    return [f"{name} has {', '.join(f'{key} ({size})' for key, size in keys.items())}" for name, keys in names.items()]
