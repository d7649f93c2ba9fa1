# SPDX-License-Identifier: Apache-2.0
"""Fills in keys that a Secret asks for with an annotation, once, so that no chart or pipeline ever sees them.

Only what is lacking is written, and only onto the version that was read: of two operators, one makes the key.
"""

from base64 import b64encode

from slinky.api.fields import generated_keys
from slinky.api.names.metadata import GENERATE_KEYS
from slinky.kube.controller import Again, ControlLoop
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import SECRETS
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, judge
from slinky.operator.metrics import WRITES


class KeyMaker:
    """Keeps Secrets complete."""

    def __init__(self, world: Context) -> None:
        self.world = world
        self.controller: ControlLoop[Key] = ControlLoop(
            "key-controller", self.reconcile, workers=WORKERS, judges=(judge,), clock=world.clock
        )
        self.controller.watches(world.contents.secrets, when=lambda _, new: new is not None and asks(new))
        world.runtime.control(self.controller)

    async def reconcile(self, key: Key) -> Again | None:
        """Add the keys that are asked for and not there."""
        found = self.world.contents.secrets.get(key)
        if found is None or found.metadata.deleting or not asks(found):
            return None
        held = await self.world.contents.secret(*key)
        lacking = generated_keys.missing(held.metadata.annotations, held.data)
        if lacking:
            WRITES.labels("patch", "Secret").inc()
            data = {name: b64encode(value).decode() for name, value in lacking.items()}
            version = {"resourceVersion": held.metadata.resource_version}
            made = await self.world.client.patch(SECRETS, key, {"metadata": version, "data": data})
            self.world.contents.remember(made)
        return None


def asks(found: HasMeta) -> bool:
    """Whether a Secret wants keys to be made."""
    return GENERATE_KEYS in found.metadata.annotations
