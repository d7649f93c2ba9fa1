# SPDX-License-Identifier: Apache-2.0
"""A replica of the bridge that waits for the lease: its memory while pods come and go, and its first reconcile.

    python -m bench.bridge_standby

`bench.bridge` runs it with `--json` in a process of its own, because it measures the memory of its process.

The caches and control loops are those of the bridge. The events are decoded from JSON as a watch does, but come from
this process: 200,000 pods would keep an API server busy for half an hour.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, cast

from slinky.bridge.app import Bridge
from slinky.bridge.config import BridgeSettings
from slinky.bridge.views import OUR_PODS
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Discovery, KubeClient, RequeueAfter, Runtime
from slinky.kube.transport import Transport
from slinky.observe import Log
from slinky.slurm import SlurmClient

log = Log("bench.bridge_standby")


def pod_event(name: str, version: int) -> bytes:
    """A pod as the API server sends it."""
    meta = {"name": name, "namespace": "bench", "uid": f"uid-{name}", "resourceVersion": str(version)}
    container: dict[str, Any] = {"name": "c", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": "slurm-bridge", "containers": [container]}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}).encode()


def resident_megabytes() -> float:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def measure(pods: int, kept: int) -> list[tuple[str, float, str, float]]:
    """Memory growth, seconds until the first and until the last reconcile after taking over; each with its limit."""
    runtime = Runtime(KubeClient(cast("Transport", None)))
    slurm = SlurmClient("http://127.0.0.1:1", "token")
    bridge = Bridge(BridgeSettings(), runtime, slurm, Discovery([]), BridgeIdentity("uid", "bench"))
    reconciled: list[float] = []

    async def reconcile(_: Workload) -> RequeueAfter | None:
        reconciled.append(time.monotonic())
        return None

    bridge.workload_loop._reconcile = reconcile  # only the loop is measured, there is no server to write to
    bridge.wire()
    cache = bridge.cluster.pods
    for number in range(kept):
        cache.put(OUR_PODS.decode(pod_event(f"kept-{number}", number + 1)))
    before, version = resident_megabytes(), kept
    for number in range(pods):
        item = OUR_PODS.decode(pod_event(f"pod-{number}", version := version + 1))
        cache.put(item)
        cache.remove(OUR_PODS.decode(pod_event(f"pod-{number}", version := version + 1)).metadata)
    growth = resident_megabytes() - before
    began = time.monotonic()
    leading = asyncio.create_task(bridge.workload_loop.run())
    while len(reconciled) < kept:  # noqa: ASYNC110 - the loop has no event for this
        await asyncio.sleep(0.001)
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    return [
        (f"standby, {pods} pods came and went, memory", growth, "MB", 10.0),
        (f"standby takes over with {kept} pods, first reconcile", reconciled[0] - began, "s", 1.0),
        (f"standby takes over with {kept} pods, all reconciled", reconciled[-1] - began, "s", 10.0),
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=200_000, help="pods that come and go")
    parser.add_argument("--kept", type=int, default=10_000, help="pods that stay")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.pods, options.kept))
    if options.json:
        print(json.dumps(figures))
        return 0
    for what, value, unit, limit in figures:
        print(f"| {what:<58} | {value:>9.3f} {unit:<2} | < {limit:g} | {'met' if value < limit else 'MISSED'} |")
    return 0 if all(value < limit for _, value, _, limit in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
