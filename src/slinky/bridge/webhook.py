# SPDX-License-Identifier: Apache-2.0
"""Serves the admission rules over TLS, with the namespaces' labels from a cache.

It knows nothing of Slurm, so it answers whatever becomes of Slurm. The certificate is followed as it is renewed.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from slinky.bridge import admission
from slinky.bridge.config import Settings
from slinky.kube import NAMESPACES, Key, Runtime, connect
from slinky.kube.admission import application, serve
from slinky.observe import Health


async def main(settings: Settings, certificates: Path, *, port: int = 9443, health: Health | None = None) -> None:
    """Answer until cancelled; `certificates` holds tls.crt and tls.key."""
    async with connect(manager="slurm-bridge-admission") as client:
        runtime = Runtime(client, health=health)
        namespaces = runtime.cache(NAMESPACES)

        async def labels_of(name: str) -> Mapping[str, str]:
            # A namespace so new that no event has told of it yet is asked for.
            found = namespaces.get(Key("", name)) or await client.find(NAMESPACES, Key("", name))
            return found.metadata.labels if found else {}

        app = application(admission.handlers(settings, labels_of))
        async with asyncio.TaskGroup() as family:
            family.create_task(runtime.run())
            await namespaces.wait_synced(60)
            async with serve(app, certificates / "tls.crt", certificates / "tls.key", port=port):
                await asyncio.Event().wait()
