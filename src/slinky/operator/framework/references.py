# SPDX-License-Identifier: Apache-2.0
"""Which Secrets and ConfigMaps each kind refers to, so that a change of one wakes those who use it. Pure."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.fields.refs import ConfigKeyRef, DaemonKeyRefs, JwtKeyRefs, KeyRef
from slinky.api.loginset import LoginSet
from slinky.api.nodeset import NodeSet
from slinky.api.token import Token
from slinky.kube.cache import Cache
from slinky.kube.types import HasMeta, Key
from slinky.operator.controller.files import referenced
from slinky.operator.keys import jwt_keyring, slurm_keyring

T = TypeVar("T", bound=HasMeta)

#: Indexes by `namespace/name` of what is referred to.
SECRETS = "secrets"
CONFIG_MAPS = "config-maps"
CONTROLLER = "controller"
ACCOUNTING = "accounting"


def _names(*refs: KeyRef | ConfigKeyRef | None) -> list[str]:
    return [ref.name for ref in refs if ref is not None]


def _daemon_secrets(spec: DaemonKeyRefs) -> list[str]:
    """Keys that a person wrote, and the rings that daemons read."""
    rings = [slurm_keyring.name(spec.slurm_key_ref)] if spec.slurm_key_ref else []
    return [*_names(spec.slurm_key_ref, spec.jwt_key), *rings, *_jwt_ring(spec)]


def _jwt_ring(spec: JwtKeyRefs) -> list[str]:
    return [jwt_keyring.name(spec.jwt_key)] if spec.jwt_key else []


def controller_secrets(of: Controller) -> Iterable[str]:
    """Secrets of a Controller."""
    return _daemon_secrets(of.spec)


def controller_maps(of: Controller) -> Iterable[str]:
    """ConfigMaps of a Controller."""
    return (*referenced(of), *_names(of.spec.jwks_key_ref))


def accounting_secrets(of: Accounting) -> Iterable[str]:
    """Secrets of an Accounting, the database password among them."""
    storage = of.spec.storage_config
    return (*_daemon_secrets(of.spec), *_names(storage.password_key_ref if storage else None))


def accounting_maps(of: Accounting) -> Iterable[str]:
    """ConfigMaps of an Accounting."""
    return _names(of.spec.jwks_key_ref)


def login_secrets(of: LoginSet) -> Iterable[str]:
    """Secrets of a LoginSet."""
    return (*_names(of.spec.sssd_conf_ref), of.host_keys_name)


def worker_secrets(of: NodeSet) -> Iterable[str]:
    """Secrets of a NodeSet itself; those of its Controller are the Controller's."""
    return _names(of.spec.ssh.sssd_conf_ref if of.spec.ssh.enabled else None)


def token_secrets(of: Token) -> Iterable[str]:
    """The key a Token is signed with, what goes on with it, and where the Token goes."""
    return (*_names(of.spec.jwt_key), *_jwt_ring(of.spec), of.secret_name)


def local(names: Callable[[T], Iterable[str]]) -> Callable[[T], tuple[str, ...]]:
    """An index over names in the object's own namespace."""
    return lambda found: tuple(str(Key(found.metadata.namespace, name)) for name in names(found) if name)


def users(cache: Cache[T], index: str) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Maps an object to the keys of those that refer to it."""
    return lambda found: tuple(user.metadata.key for user in cache.by(index, str(found.metadata.key)))
