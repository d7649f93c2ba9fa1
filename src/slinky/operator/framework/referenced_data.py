# SPDX-License-Identifier: Apache-2.0
"""Reads the ConfigMaps and Secrets that a spec refers to.

The operator watches only the metadata of all ConfigMaps and Secrets. It reads the content of an object when a spec
refers to it, and keeps the content until the resource version changes. References never leave their namespace: callers
pass the namespace of the object that refers.
"""

from typing import TypeVar

from slinky.api.fields.refs import ConfigKeyRef, DaemonKeyRefs, KeyRef
from slinky.api.names.metadata import KEY_ORIGIN, KEY_ROTATION
from slinky.kube.cache import Cache
from slinky.kube.client import KubeClient
from slinky.kube.errors import Blocked, Later
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, SECRETS, ConfigMap, Secret
from slinky.operator.keyrings.jwt_keyring import JWT_KEYRING, JwtKeyRing
from slinky.operator.keyrings.slurm_keyring import SLURM_KEYRING, mounted_digest

T = TypeVar("T", ConfigMap, Secret)


class ReferencedData:
    """Reads referenced objects, once per resource version."""

    def __init__(self, runtime: Runtime, namespace: str) -> None:
        self._client: KubeClient = runtime.client
        self.config_maps: Cache[Object] = runtime.cache(CONFIG_MAPS.metadata_only(), namespace=namespace)
        self.secrets: Cache[Object] = runtime.cache(SECRETS.metadata_only(), namespace=namespace)
        self._read_config_maps: dict[Key, ConfigMap] = {}
        self._read_secrets: dict[Key, Secret] = {}

    async def config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return a ConfigMap. Raises `Blocked` if it does not exist."""
        return await self._read(CONFIG_MAPS, self.config_maps, self._read_config_maps, Key(namespace, name))

    async def secret(self, namespace: str, name: str) -> Secret:
        """Return a Secret. Raises `Blocked` if it does not exist."""
        return await self._read(SECRETS, self.secrets, self._read_secrets, Key(namespace, name))

    async def secret_value(self, namespace: str, ref: KeyRef) -> bytes:
        """Return the value of one key of a Secret. Raises `Blocked` if it is missing or empty."""
        value = (await self.secret(namespace, ref.name)).data.get(ref.key)
        if not value:
            raise Blocked("KeyMissing", f"Secret {ref.name} has no key {ref.key}; add it")
        return value

    async def config_value(self, namespace: str, ref: ConfigKeyRef) -> str:
        """Return the value of one key of a ConfigMap. Raises `Blocked` if it is missing or empty."""
        value = (await self.config_map(namespace, ref.name)).data.get(ref.key)
        if not value:
            raise Blocked("KeyMissing", f"ConfigMap {ref.name} has no key {ref.key}; add it")
        return value

    async def slurm_keys(self, namespace: str, ref: KeyRef | None) -> str:
        """Return a digest of the slurm keys that daemons mount; it changes with every stage of a rotation."""
        return mounted_digest(await self._slurm_key_ring(namespace, ref)) if ref else ""

    async def first_slurm_key(self, namespace: str, ref: KeyRef | None) -> str:
        """Return a digest that no rotation changes, for pods that read new keys without a restart."""
        return (await self._slurm_key_ring(namespace, ref)).metadata.annotations.get(KEY_ORIGIN, "") if ref else ""

    async def jwt_key_ring(self, namespace: str, ref: KeyRef) -> JwtKeyRing:
        """Return the key ring of a JWT key; if there is none yet, a ring with the referenced key."""
        key = await self.secret_value(namespace, ref)
        ring = Key(namespace, JWT_KEYRING.secret_name(ref))
        return JWT_KEYRING.read(await self.secret(*ring)) if self.secrets.get(ring) is not None else JwtKeyRing(key)

    async def describe_rotations(self, namespace: str, spec: DaemonKeyRefs) -> str:
        """Describe the rotations of these keys that are in progress; empty if there is none."""
        names = [SLURM_KEYRING.secret_name(spec.slurm_key_ref)] if spec.slurm_key_ref else []
        names += [JWT_KEYRING.secret_name(spec.jwt_key)] if spec.jwt_key else []
        existing = [name for name in names if self.secrets.get(Key(namespace, name)) is not None]
        texts = [(await self.secret(namespace, name)).metadata.annotations.get(KEY_ROTATION, "") for name in existing]
        return "; ".join(filter(None, texts))

    async def _slurm_key_ring(self, namespace: str, ref: KeyRef) -> Secret:
        await self.secret_value(namespace, ref)
        name = SLURM_KEYRING.secret_name(ref)
        if self.secrets.get(Key(namespace, name)) is None:
            raise Later(f"the key ring of Secret {ref.name} is not written yet", after=1)
        return await self.secret(namespace, name)

    def remember(self, secret: Secret) -> None:
        """Keep a Secret that this operator has just written, so that it is not read again."""
        self._read_secrets[secret.key] = secret
        self.secrets.record_write(Object(secret.metadata))

    async def _read(self, resource: Resource[T], cache: Cache[Object], contents: dict[Key, T], key: Key) -> T:
        known = cache.get(key)
        if known is None:
            contents.pop(key, None)
            raise Blocked("ReferenceMissing", f"there is no {resource.kind} {key.name}; create it")
        content = contents.get(key)
        if content is None or content.metadata.resource_version != known.metadata.resource_version:
            content = contents[key] = await self._client.get(resource, key)
        return content
