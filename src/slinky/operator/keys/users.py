# SPDX-License-Identifier: Apache-2.0
"""The users of a key: the Controllers and Accountings that refer to its Secret, and that own its key ring."""

from collections.abc import Callable, Sequence
from typing import Any

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.operator.framework import references
from slinky.operator.framework.context import Context

KeyUser = Controller | Accounting
#: Returns the reference to one type of key in a spec.
SelectKey = Callable[[DaemonKeyRefs], KeyRef | None]


def find_users(context: Context, secret: Key) -> list[KeyUser]:
    """Return the objects that refer to a Secret, either as a Secret with keys or as a key ring."""
    value = str(secret)
    return [*context.controllers.by(references.SECRETS, value), *context.accountings.by(references.SECRETS, value)]


def users_by_key(context: Context, secret: Key, key_ref: SelectKey) -> dict[KeyRef, list[KeyUser]]:
    """Return the keys of a Secret that are in use, with their users."""
    users: dict[KeyRef, list[KeyUser]] = {}
    for user in find_users(context, secret):
        ref = key_ref(user.spec)
        if ref is not None and ref.name == secret.name:
            # Users may write the same reference differently, for example with `optional`.
            users.setdefault(KeyRef(key=ref.key, name=ref.name), []).append(user)
    return users


def affected_secrets(context: Context, key_ref: SelectKey) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Return a function that maps a changed Secret, with keys or with a key ring, to the Secrets with the keys."""

    def map_secret(changed: HasMeta) -> tuple[Key, ...]:
        users = find_users(context, changed.metadata.key)
        return tuple({key for user in users for key in key_secret(key_ref)(user)})

    return map_secret


def key_secret(key_ref: SelectKey) -> Callable[[KeyUser], tuple[Key, ...]]:
    """Return a function that maps a user to the Secret with its key."""

    def map_user(user: KeyUser) -> tuple[Key, ...]:
        ref = key_ref(user.spec)
        return (Key(user.metadata.namespace, ref.name),) if ref else ()

    return map_user


def kind_of(user: KeyUser) -> Resource[Any]:
    """Return the kind of a user."""
    return CONTROLLERS if isinstance(user, Controller) else ACCOUNTINGS


def owner_reference(user: KeyUser) -> dict[str, Any]:
    """Return the owner reference for a key ring; with several owners, none is marked as the controller."""
    kind = kind_of(user)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": user.metadata.name, "uid": user.metadata.uid}


def has_other_owners(ring: HasMeta, users: Sequence[KeyUser]) -> bool:
    """Return whether the owners of a key ring differ from its users."""
    owners = {reference.uid for reference in ring.metadata.owner_references}
    return owners != {user.metadata.uid for user in users}
