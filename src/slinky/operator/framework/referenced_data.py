# SPDX-License-Identifier: Apache-2.0
"""What the ConfigMaps and Secrets hold that a spec refers to.

Only names and versions of all ConfigMaps and Secrets are watched; the content of one is read when it is referred to and
kept until its version moves. References never leave their namespace: a caller gives its own and a name.
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
from slinky.operator.keys import jwt_keyring, slurm_keyring
from slinky.operator.keys.jwt_keyring import Ring
from slinky.operator.keys.slurm_keyring import mounted

T = TypeVar("T", ConfigMap, Secret)


class ReferencedData:
    """Reads referenced objects, once per version."""

    def __init__(self, runtime: Runtime, namespace: str) -> None:
        self._client: KubeClient = runtime.client
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

    async def slurm_keys(self, namespace: str, ref: KeyRef | None) -> str:
        """A digest of the slurm keys that daemons mount. Raises `Blocked` while nobody has written one."""
        return mounted(await self._ring(namespace, ref)) if ref else ""

    async def first_slurm_key(self, namespace: str, ref: KeyRef | None) -> str:
        """A digest that stays through every rotation, for pods that read their keys again without a restart."""
        return (await self._ring(namespace, ref)).metadata.annotations.get(KEY_ORIGIN, "") if ref else ""

    async def jwt(self, namespace: str, ref: KeyRef) -> Ring:
        """The JWT key that daemons hold, with what goes on with it; the wanted one where nobody keeps a ring."""
        wanted = await self.secret_value(namespace, ref)
        key = Key(namespace, jwt_keyring.name(ref))
        return jwt_keyring.read(await self.secret(*key)) if self.secrets.get(key) is not None else Ring(wanted)

    async def rotation(self, namespace: str, spec: DaemonKeyRefs) -> str:
        """What rotations of these keys are at, in words; empty for none."""
        rings = [slurm_keyring.name(spec.slurm_key_ref)] if spec.slurm_key_ref else []
        rings += [jwt_keyring.name(spec.jwt_key)] if spec.jwt_key else []
        there = [ring for ring in rings if self.secrets.get(Key(namespace, ring)) is not None]
        said = [(await self.secret(namespace, ring)).metadata.annotations.get(KEY_ROTATION, "") for ring in there]
        return "; ".join(filter(None, said))

    async def _ring(self, namespace: str, ref: KeyRef) -> Secret:
        await self.secret_value(namespace, ref)
        if self.secrets.get(Key(namespace, slurm_keyring.name(ref))) is None:
            raise Later(f"the keyring of Secret {ref.name} is not made yet", after=1)
        return await self.secret(namespace, slurm_keyring.name(ref))

    def remember(self, made: Secret) -> None:
        """We have just written this Secret."""
        self._secrets[made.key] = made
        self.secrets.record_write(Object(made.metadata))

    async def _read(self, resource: Resource[T], seen: Cache[Object], kept: dict[Key, T], key: Key) -> T:
        known = seen.get(key)
        if known is None:
            kept.pop(key, None)
            raise Blocked("ReferenceMissing", f"there is no {resource.kind} {key.name}; create it")
        held = kept.get(key)
        if held is None or held.metadata.resource_version != known.metadata.resource_version:
            held = kept[key] = await self._client.get(resource, key)
        return held
