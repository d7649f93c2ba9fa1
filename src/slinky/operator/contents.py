# SPDX-License-Identifier: Apache-2.0
"""What the ConfigMaps and Secrets hold that a spec refers to.

Only names and versions of all ConfigMaps and Secrets are watched; the content of one is read when it is referred to and
kept until its version moves. References never leave their namespace: a caller gives its own and a name.
"""

from typing import TypeVar

from slinky.api.refs import ConfigKeyRef, KeyRef
from slinky.kube.cache import Cache
from slinky.kube.client import Client
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, SECRETS, ConfigMap, Secret

T = TypeVar("T", ConfigMap, Secret)


class Contents:
    """Reads referenced objects, once per version."""

    def __init__(self, runtime: Runtime, namespace: str) -> None:
        self._client: Client = runtime.client
        self.config_maps: Cache[Object] = runtime.cache(CONFIG_MAPS.metadata_only(), namespace=namespace)
        self.secrets: Cache[Object] = runtime.cache(SECRETS.metadata_only(), namespace=namespace)
        self._maps: dict[Key, ConfigMap] = {}
        self._secrets: dict[Key, Secret] = {}

    async def config_map(self, namespace: str, name: str) -> ConfigMap:
        """A ConfigMap. Raises `Blocked` while there is none."""
        return await self._read(CONFIG_MAPS, self.config_maps, self._maps, Key(namespace, name))

    async def secret(self, namespace: str, name: str) -> Secret:
        """A Secret. Raises `Blocked` while there is none."""
        return await self._read(SECRETS, self.secrets, self._secrets, Key(namespace, name))

    async def secret_value(self, namespace: str, ref: KeyRef) -> bytes:
        """One key of a Secret."""
        found = (await self.secret(namespace, ref.name)).data.get(ref.key)
        if not found:
            raise Blocked("KeyMissing", f"Secret {ref.name} has no key {ref.key}; add it")
        return found

    async def config_value(self, namespace: str, ref: ConfigKeyRef) -> str:
        """One key of a ConfigMap."""
        found = (await self.config_map(namespace, ref.name)).data.get(ref.key)
        if not found:
            raise Blocked("KeyMissing", f"ConfigMap {ref.name} has no key {ref.key}; add it")
        return found

    def remember(self, made: Secret) -> None:
        """We have just written this Secret."""
        self._secrets[made.key] = made
        self.secrets.wrote(Object(made.metadata))

    async def _read(self, resource: Resource[T], seen: Cache[Object], kept: dict[Key, T], key: Key) -> T:
        known = seen.get(key)
        if known is None:
            kept.pop(key, None)
            raise Blocked("ReferenceMissing", f"there is no {resource.kind} {key.name}; create it")
        held = kept.get(key)
        if held is None or held.metadata.resource_version != known.metadata.resource_version:
            held = kept[key] = await self._client.get(resource, key)
        return held
