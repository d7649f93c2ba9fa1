# SPDX-License-Identifier: Apache-2.0
"""Generates the keys that an annotation of a Secret asks for, so that no chart or pipeline contains them.

Only missing keys are written, and only onto the resource version that was read: of two operators, one writes the key.
"""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping

from slinky.api.names.metadata import GENERATE_KEYS
from slinky.bounds import GENERATED_KEYS_MAX
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import SECRETS
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, classify_error
from slinky.operator.metrics import WRITES

#: Random bytes per key; Slurm's documentation suggests this size for slurm.key.
KEY_BYTES = 1024


class KeyGenerator:
    """Adds generated keys to Secrets."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.loop: ControlLoop[Key] = ControlLoop(
            "key-controller", self.reconcile, workers=WORKERS, error_classifiers=(classify_error,), clock=context.clock
        )
        self.loop.watch(context.referenced_data.secrets, when=lambda _, new: new is not None and wants_keys(new))
        context.runtime.add_controller(self.loop)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Write the keys that a Secret asks for and does not have."""
        known = self.context.referenced_data.secrets.get(key)
        if known is None or known.metadata.deleting or not wants_keys(known):
            return None
        secret = await self.context.referenced_data.secret(*key)
        missing = missing_keys(secret.metadata.annotations, secret.data)
        if missing:
            WRITES.labels("patch", "Secret").inc()
            data = {name: b64encode(value).decode() for name, value in missing.items()}
            version = {"resourceVersion": secret.metadata.resource_version}
            written = await self.context.client.patch(SECRETS, key, {"metadata": version, "data": data})
            self.context.referenced_data.remember(written)
        return None


def wants_keys(secret: HasMeta) -> bool:
    """Return whether a Secret asks for generated keys."""
    return GENERATE_KEYS in secret.metadata.annotations


def missing_keys(
    annotations: Mapping[str, str],
    data: Mapping[str, bytes],
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> dict[str, bytes]:
    """Generate the keys that the annotation of a Secret lists and its data lacks. Existing keys are never replaced."""
    names = [
        name.strip() for name in annotations.get(GENERATE_KEYS, "").split(",", GENERATED_KEYS_MAX)[:GENERATED_KEYS_MAX]
    ]
    return {name: random_bytes(KEY_BYTES) for name in names if name and not data.get(name)}
