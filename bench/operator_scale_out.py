# SPDX-License-Identifier: Apache-2.0
"""Time to scale a NodeSet from zero to many ready pods, relative to a loop that sends the same requests.

A first run records the requests of the operator. The loop sends them again, in the same order and with the same
concurrency, to another namespace that no operator watches.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from unittest import mock

from bench.operator_cluster import BenchNamespace, OperatorProcess, bench_namespace, wait_until
from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, Cache, Key, Pod, Runtime
from slinky.kube.aio_transport import AioTransport
from slinky.kube.transport import HttpResponse
from slinky.lab.lab import Lab
from slinky.operator.app import main as operate
from slinky.operator.nodeset.executor import MAX_CONCURRENT_REQUESTS
from slinky.operator.settings import OperatorSettings


class RecordedRequest(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]


class ScaleOutTimes(NamedTuple):
    """Seconds until the last pod was created and was ready, CPU seconds, and requests of the loop."""

    created: float
    ready: float
    cpu: float
    requests: int = 0
    refused: int = 0


async def measure_scale_out(lab: Lab, count: int, rounds: int) -> dict[str, ScaleOutTimes]:
    """Run the operator and the loop in turns; return the best of each, since other load only slows them down."""
    sent = await record_requests(lab, count)
    runs_by_name: dict[str, list[ScaleOutTimes]] = {"floor": [], "operator": []}
    for number in range(rounds):
        runs_by_name["floor"].append(await replay_requests(lab, f"floor-{number}", sent, count))
        runs_by_name["operator"].append(await scale_with_operator(lab, f"grow-{number}", count))
    return {name: min(runs, key=lambda times: times.ready) for name, runs in runs_by_name.items()}


async def scale_with_operator(lab: Lab, name: str, count: int) -> ScaleOutTimes:
    """Let the operator create the workers of a NodeSet."""
    async with bench_namespace(lab, name) as namespace:
        await namespace.cluster()
        async with OperatorProcess(lab, name) as operator, watch_workers(namespace) as pods:
            await operator.quiet()
            began, cpu = time.monotonic(), operator.cpu
            await namespace.workers(count)
            created, ready = await wait_until_ready(pods, count)
            return ScaleOutTimes(created - began, ready - began, operator.cpu - cpu)


async def replay_requests(lab: Lab, name: str, sent: list[RecordedRequest], count: int) -> ScaleOutTimes:
    """Send the recorded requests in a loop."""
    async with bench_namespace(lab, name) as namespace, watch_workers(namespace) as pods:
        await namespace.cluster()
        await namespace.workers(count)
        work = iter([request async for request in adapt_requests(namespace, sent)])

        responses: Counter[bool] = Counter()

        async def loop() -> None:
            for request in work:
                response = await namespace.client.transport.request(
                    request.method, request.path, body=request.body, headers=request.headers, deadline=60
                )
                responses[response.status < 400] += 1

        began, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(loop() for _ in range(MAX_CONCURRENT_REQUESTS)))
        cpu = time.process_time() - cpu
        created, ready = await wait_until_ready(pods, count)
        return ScaleOutTimes(created - began, ready - began, cpu, responses.total(), responses[False])


async def record_requests(lab: Lab, count: int) -> list[RecordedRequest]:
    """Record every request but watches of an operator that scales out; names and uids are placeholders in braces."""
    async with bench_namespace(lab, "record") as namespace:
        await namespace.cluster()
        settings = OperatorSettings(
            kubeconfig=str(lab.kubeconfig), namespaces=("record",), cluster_domain="cluster.local", trial_seconds=0
        )
        with recording_requests() as sent:
            running = asyncio.create_task(operate(settings))
            await asyncio.sleep(8)
            sent.clear()
            async with watch_workers(namespace) as pods:
                await namespace.workers(count)
                await wait_until_ready(pods, count)
            await asyncio.sleep(5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return [
            _replace_values(request, {value: name for name, value in (await namespace_values(namespace)).items()})
            for request in sent
        ]


async def adapt_requests(namespace: BenchNamespace, sent: list[RecordedRequest]) -> AsyncIterator[RecordedRequest]:
    """Yield the requests with the names and uids of this namespace."""
    names = await namespace_values(namespace)
    for request in sent:
        yield _replace_values(request, names)


async def namespace_values(namespace: BenchNamespace) -> dict[str, str]:
    """The values of the placeholders in this namespace."""
    controller = await namespace.client.get(CONTROLLERS, Key(namespace.namespace, "slurm"))
    node_set = await namespace.client.get(NODE_SETS, Key(namespace.namespace, "gpu"))
    return {
        "{controller}": controller.metadata.uid,
        "{nodeset}": node_set.metadata.uid,
        "{version}": f'"resourceVersion":"{node_set.metadata.resource_version}"',
        "{namespace}": namespace.namespace,
    }


def _replace_values(request: RecordedRequest, names: dict[str, str]) -> RecordedRequest:
    path, body = request.path, request.body
    for old, new in names.items():
        path = path.replace(f"/{old}/", f"/{new}/")
        body = body.replace(old.encode(), new.encode()) if body else body
    return request._replace(path=path, body=body)


@contextlib.contextmanager
def recording_requests() -> Iterator[list[RecordedRequest]]:
    """Record every request inside the context, in order."""
    sent: list[RecordedRequest] = []
    send = AioTransport.request

    async def request(self: AioTransport, method: str, path: str, **more: Any) -> HttpResponse:
        if "/apis/apiextensions" not in path:
            sent.append(RecordedRequest(method, path, more.get("body"), dict(more.get("headers", {}))))
        return await send(self, method, path, **more)

    with mock.patch.object(AioTransport, "request", request):
        yield sent


@contextlib.asynccontextmanager
async def watch_workers(namespace: BenchNamespace) -> AsyncIterator[Cache[Pod]]:
    """Watch the workers of a namespace."""
    runtime = Runtime(namespace.client)
    pods = runtime.cache(PODS, namespace=namespace.namespace, labels="app.kubernetes.io/name=slurmd")
    task = asyncio.create_task(runtime.run())
    await pods.wait_synced(60)
    try:
        yield pods
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def wait_until_ready(pods: Cache[Pod], count: int) -> tuple[float, float]:
    """Wait for all pods; return the times at which the last one was created and was ready."""
    created: set[Key] = set()
    ready: set[Key] = set()
    times = [0.0, 0.0]

    def changed(_: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        for index, (keys, applies) in enumerate(((created, True), (ready, new.ready))):
            if applies and new.key not in keys:
                keys.add(new.key)
                times[index] = time.monotonic()

    pods.listen(changed)

    async def all_ready() -> bool:
        return len(ready) >= count

    await wait_until(all_ready, f"{count} pods", 900, every=0.02)
    return times[0], times[1]
