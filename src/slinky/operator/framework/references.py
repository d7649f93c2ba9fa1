# SPDX-License-Identifier: Apache-2.0
"""The Secrets and ConfigMaps that each kind refers to, so that a change of one reconciles its referrers."""

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
from slinky.operator.build.config_files import referenced_config_maps
from slinky.operator.keyrings.jwt_keyring import JWT_KEYRING
from slinky.operator.keyrings.slurm_keyring import SLURM_KEYRING

T = TypeVar("T", bound=HasMeta)

#: Names of indexes; their values are `namespace/name` of the object that is referred to.
SECRETS = "secrets"
CONFIG_MAPS = "config-maps"
CONTROLLER = "controller"
ACCOUNTING = "accounting"


def _names(*refs: KeyRef | ConfigKeyRef | None) -> list[str]:
    return [ref.name for ref in refs if ref is not None]


def _daemon_secrets(spec: DaemonKeyRefs) -> list[str]:
    """Return the Secrets with keys, and the key rings that daemons mount."""
    rings = [SLURM_KEYRING.secret_name(spec.slurm_key_ref)] if spec.slurm_key_ref else []
    return [*_names(spec.slurm_key_ref, spec.jwt_key), *rings, *_jwt_key_ring(spec)]


def _jwt_key_ring(spec: JwtKeyRefs) -> list[str]:
    return [JWT_KEYRING.secret_name(spec.jwt_key)] if spec.jwt_key else []


def controller_secrets(controller: Controller) -> Iterable[str]:
    """Return the Secrets that a Controller refers to."""
    return _daemon_secrets(controller.spec)


def controller_config_maps(controller: Controller) -> Iterable[str]:
    """Return the ConfigMaps that a Controller refers to."""
    return (*referenced_config_maps(controller), *_names(controller.spec.jwks_key_ref))


def accounting_secrets(accounting: Accounting) -> Iterable[str]:
    """Return the Secrets that an Accounting refers to, with the database password."""
    storage = accounting.spec.storage_config
    return (*_daemon_secrets(accounting.spec), *_names(storage.password_key_ref if storage else None))


def accounting_config_maps(accounting: Accounting) -> Iterable[str]:
    """Return the ConfigMaps that an Accounting refers to."""
    return _names(accounting.spec.jwks_key_ref)


def login_set_secrets(login_set: LoginSet) -> Iterable[str]:
    """Return the Secrets that a LoginSet refers to."""
    return (*_names(login_set.spec.sssd_conf_ref), login_set.host_keys_name)


def node_set_secrets(node_set: NodeSet) -> Iterable[str]:
    """Return the Secrets that a NodeSet itself refers to, without those of its Controller."""
    return _names(node_set.spec.ssh.sssd_conf_ref if node_set.spec.ssh.enabled else None)


def token_secrets(token: Token) -> Iterable[str]:
    """Return the Secret with the key of a Token, its key ring, and the Secret that the Token is written to."""
    return (*_names(token.spec.jwt_key), *_jwt_key_ring(token.spec), token.secret_name)


def qualified(names: Callable[[T], Iterable[str]]) -> Callable[[T], tuple[str, ...]]:
    """Return an index function: the names with the namespace of the object that refers to them."""
    return lambda referrer: tuple(str(Key(referrer.metadata.namespace, name)) for name in names(referrer) if name)


def referrers(cache: Cache[T], index: str) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Return a function that maps an object to the keys of the objects that refer to it."""
    return lambda target: tuple(user.metadata.key for user in cache.by(index, str(target.metadata.key)))
