# SPDX-License-Identifier: Apache-2.0
"""Fills in keys that a Secret asks for with an annotation, once, so that no chart or pipeline ever sees them.

Only what is lacking is written, and only onto the version that was read: of two operators, one makes the key.
"""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping

from slinky.api.names.metadata import GENERATE_KEYS
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import SECRETS
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, judge
from slinky.operator.metrics import WRITES

#: Random bytes per key; Slurm's documentation suggests this size for slurm.key.
KEY_BYTES = 1024


class KeyMaker:
    """Keeps Secrets complete."""

    def __init__(self, world: Context) -> None:
        self.world = world
        self.controller: ControlLoop[Key] = ControlLoop(
            "key-controller", self.reconcile, workers=WORKERS, error_classifiers=(judge,), clock=world.clock
        )
        self.controller.watch(world.contents.secrets, when=lambda _, new: new is not None and asks(new))
        world.runtime.add_controller(self.controller)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Add the keys that are asked for and not there."""
        found = self.world.contents.secrets.get(key)
        if found is None or found.metadata.deleting or not asks(found):
            return None
        held = await self.world.contents.secret(*key)
        lacking = missing_keys(held.metadata.annotations, held.data)
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


def missing_keys(
    annotations: Mapping[str, str],
    data: Mapping[str, bytes],
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> dict[str, bytes]:
    """Generate the keys that the annotation of a Secret lists and its data lacks. Existing keys are never replaced."""
    names = [name.strip() for name in annotations.get(GENERATE_KEYS, "").split(",")]
    return {name: random_bytes(KEY_BYTES) for name in names if name and not data.get(name)}
