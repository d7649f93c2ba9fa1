# SPDX-License-Identifier: Apache-2.0
"""Who holds a key: the Controllers and Accountings that refer to its Secret, and so own the ring beside it.

A ring is a Secret of the operator, in which a rotation of the key stands; `keyring` and `jwtring` say what is in it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.api.names import metadata
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import SECRETS, Secret
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES

Holder = Controller | Accounting
#: Which of its keys is meant.
Which = Callable[[DaemonKeyRefs], KeyRef | None]


def users(world: Context, secret: Key) -> list[Holder]:
    """Everybody who has to do with a Secret: one with keys, or a ring."""
    asked = str(secret)
    return [*world.controllers.by(references.SECRETS, asked), *world.accountings.by(references.SECRETS, asked)]


def holders(world: Context, secret: Key, which: Which) -> dict[KeyRef, list[Holder]]:
    """Who holds which key of this Secret."""
    found: dict[KeyRef, list[Holder]] = {}
    for of in users(world, secret):
        ref = which(of.spec)
        if ref is not None and ref.name == secret.name:
            found.setdefault(KeyRef(key=ref.key, name=ref.name), []).append(of)  # as a key, whatever else it says
    return found


def sources(world: Context, which: Which) -> Callable[[HasMeta], tuple[Key, ...]]:
    """Maps a changed Secret to those with the keys it has to do with: itself, or the one it is the ring of."""

    def found(changed: HasMeta) -> tuple[Key, ...]:
        return tuple({key for of in users(world, changed.metadata.key) for key in source(which)(of)})

    return found


def source(which: Which) -> Callable[[Holder], tuple[Key, ...]]:
    """Maps a holder to the Secret with its key."""

    def found(of: Holder) -> tuple[Key, ...]:
        ref = which(of.spec)
        return (Key(of.metadata.namespace, ref.name),) if ref else ()

    return found


def kind_of(of: Holder) -> Resource[Any]:
    """Its kind."""
    return CONTROLLERS if isinstance(of, Controller) else ACCOUNTINGS


def owner(of: Holder) -> dict[str, Any]:
    """One of several owners of a ring, none of them in charge."""
    kind = kind_of(of)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": of.metadata.name, "uid": of.metadata.uid}


def strange(ring: HasMeta, held_by: Sequence[Holder]) -> bool:
    """Whether a ring belongs to others than those who use it."""
    return {found.uid for found in ring.metadata.owner_references} != {of.metadata.uid for of in held_by}


async def ring_of(world: Context, key: Key) -> Secret | None:
    """The ring of this name, if it has been made. Raises `Blocked` if the name is taken."""
    if world.contents.secrets.get(key) is None:
        return None
    found = await world.contents.secret(*key)
    if metadata.KEY_STAGE not in found.metadata.annotations:
        raise Blocked("NameTaken", f"Secret {key.name} is not a keyring of the operator; rename it")
    return found


async def write(world: Context, manifest: Mapping[str, Any]) -> None:
    """Make a ring as it is to be."""
    WRITES.labels("apply", "Secret").inc()
    world.contents.remember(await world.client.apply(SECRETS, manifest, manager=world.settings.manager))


def tell(world: Context, held_by: Sequence[Holder], words: str) -> None:
    """An event on every one of them."""
    for of in held_by:
        world.recorder.record(kind_of(of).reference(of), "KeyRotation", words)
