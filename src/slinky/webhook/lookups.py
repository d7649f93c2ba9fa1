# SPDX-License-Identifier: Apache-2.0
"""Reads the objects that the rules of a kind need, and no others."""

from collections.abc import Iterable
from typing import Any

from slinky.api import CONTROLLERS, LOGIN_SETS, NODE_SETS, REST_APIS, Accounting, Controller, NodeSet
from slinky.kube import CONFIG_MAPS, VOLUME_CLAIMS, Key, KubeClient, Resource, UndecodableObject
from slinky.kube.resource import T
from slinky.webhook.evaluate import CustomResource, RuleContext
from slinky.webhook.rules.controller import SCRIPT_FIELDS


async def read_context(client: KubeClient, target: CustomResource) -> RuleContext:
    """Read what the rules for a new or changed object need."""
    namespace = target.metadata.namespace
    if isinstance(target, Controller):
        return RuleContext(
            config_maps=await _config_maps(client, namespace, config_map_names(target)),
            claims=await _claims(client, namespace, target.spec.persistence.existing_claim),
            node_sets=await _list_all(client, NODE_SETS, namespace),
        )
    if isinstance(target, NodeSet):
        return RuleContext(
            controllers=await _list_all(client, CONTROLLERS, namespace),
            node_sets=await _list_all(client, NODE_SETS, namespace),
        )
    return RuleContext()


async def read_dependents(client: KubeClient, target: CustomResource) -> RuleContext:
    """Read the objects that refer to an object that is about to be deleted."""
    namespace = target.metadata.namespace
    names: list[str] = []
    node_sets: list[NodeSet] = []
    if isinstance(target, Accounting):
        controllers = await _list_all(client, CONTROLLERS, namespace)
        names = [f"controller/{item.key.name}" for item in controllers if item.accounting_key == target.key]
    if isinstance(target, Controller):
        resources: tuple[Resource[Any], ...] = (NODE_SETS, LOGIN_SETS, REST_APIS)
        for resource in resources:
            items = await _list_all(client, resource, namespace)
            dependents = [item for item in items if item.controller_key == target.key]
            names += [f"{resource.kind.lower()}/{item.key.name}" for item in dependents]
            node_sets += [item for item in dependents if isinstance(item, NodeSet)]
    return RuleContext(dependents=names, node_sets=node_sets)


def config_map_names(controller: Controller) -> set[str]:
    """Names of the ConfigMaps that a Controller refers to."""
    refs = [*controller.spec.config_file_refs]
    for _, attribute in SCRIPT_FIELDS:
        refs += getattr(controller.spec, attribute)
    return {ref.name for ref in refs}


async def _config_maps(client: KubeClient, namespace: str, names: Iterable[str]) -> dict[str, frozenset[str]]:
    config_maps = {name: await client.find(CONFIG_MAPS, Key(namespace, name)) for name in sorted(names)}
    return {name: frozenset({*item.data, *item.binary_data}) for name, item in config_maps.items() if item}


async def _claims(client: KubeClient, namespace: str, name: str) -> dict[str, frozenset[str]]:
    claim = await client.find(VOLUME_CLAIMS, Key(namespace, name)) if name else None
    return {name: frozenset(claim.spec.access_modes)} if claim else {}


async def _list_all(client: KubeClient, resource: Resource[T], namespace: str) -> list[T]:
    """List every object that can be decoded; one that cannot must not block the admission of others."""
    pages = client.pages(resource, namespace=namespace)
    return [item async for page in pages for item in page.items or () if not isinstance(item, UndecodableObject)]
