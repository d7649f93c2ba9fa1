# SPDX-License-Identifier: Apache-2.0
"""Reads what the rules of a kind look at, and nothing more."""

from collections.abc import Iterable
from typing import Any

from slinky.api import CONTROLLERS, LOGIN_SETS, NODE_SETS, REST_APIS, Accounting, Controller, NodeSet
from slinky.kube import CONFIG_MAPS, VOLUME_CLAIMS, Key, KubeClient, Resource, UndecodableObject
from slinky.kube.resource import T
from slinky.webhook.controller import SCRIPTS
from slinky.webhook.evaluate import Ours, RuleContext


async def look(client: KubeClient, at: Ours) -> RuleContext:
    """The world around an object."""
    namespace = at.metadata.namespace
    if isinstance(at, Controller):
        return RuleContext(
            config_maps=await _config_maps(client, namespace, referred(at)),
            claims=await _claims(client, namespace, at.spec.persistence.existing_claim),
            node_sets=await _all(client, NODE_SETS, namespace),
        )
    if isinstance(at, NodeSet):
        return RuleContext(
            controllers=await _all(client, CONTROLLERS, namespace),
            node_sets=await _all(client, NODE_SETS, namespace),
        )
    return RuleContext()


async def look_back(client: KubeClient, at: Ours) -> RuleContext:
    """Who refers to an object that is about to be deleted."""
    namespace = at.metadata.namespace
    found: list[str] = []
    sets: list[NodeSet] = []
    if isinstance(at, Accounting):
        controllers = await _all(client, CONTROLLERS, namespace)
        found = [f"controller/{item.key.name}" for item in controllers if item.accounting_key == at.key]
    if isinstance(at, Controller):
        dependents: tuple[Resource[Any], ...] = (NODE_SETS, LOGIN_SETS, REST_APIS)
        for resource in dependents:
            listed = await _all(client, resource, namespace)
            there = [item for item in listed if item.controller_key == at.key]
            found += [f"{resource.kind.lower()}/{item.key.name}" for item in there]
            sets += [item for item in there if isinstance(item, NodeSet)]
    return RuleContext(dependents=found, node_sets=sets)


def referred(by: Controller) -> set[str]:
    """Names of the ConfigMaps it refers to."""
    refs = [*by.spec.config_file_refs]
    for _, attribute in SCRIPTS:
        refs += getattr(by.spec, attribute)
    return {ref.name for ref in refs}


async def _config_maps(client: KubeClient, namespace: str, names: Iterable[str]) -> dict[str, frozenset[str]]:
    found = {name: await client.find(CONFIG_MAPS, Key(namespace, name)) for name in sorted(names)}
    return {name: frozenset({*item.data, *item.binary_data}) for name, item in found.items() if item}


async def _claims(client: KubeClient, namespace: str, name: str) -> dict[str, frozenset[str]]:
    found = await client.find(VOLUME_CLAIMS, Key(namespace, name)) if name else None
    return {name: frozenset(found.spec.access_modes)} if found else {}


async def _all(client: KubeClient, resource: Resource[T], namespace: str) -> list[T]:
    """Every object that can be read; one that cannot must not keep others out."""
    pages = client.pages(resource, namespace=namespace)
    return [item async for page in pages for item in page.items or () if not isinstance(item, UndecodableObject)]
