# SPDX-License-Identifier: Apache-2.0
"""A NodeSet from nothing to many running pods, against a loop that sends the same requests and does nothing else.

The requests are the operator's own: a first run writes them down, and the loop sends them again, in the same order and
as many at once, to another namespace, where no operator looks.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from unittest import mock

from bench.operator_scene import Operator, Scene, scene, until
from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, Cache, Key, Pod, Runtime
from slinky.kube.transport import AioTransport, HttpResponse
from slinky.lab.lab import Lab
from slinky.operator.app import main as operate
from slinky.operator.nodeset.executor import MAX_CONCURRENT_REQUESTS
from slinky.operator.settings import OperatorSettings


class Sent(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]


class Figures(NamedTuple):
    """Seconds until the last pod was made, and until it ran; CPU seconds of who made them; what a loop sent."""

    made: float
    ran: float
    cpu: float
    requests: int = 0
    refused: int = 0


async def grown(lab: Lab, count: int, rounds: int) -> dict[str, Figures]:
    """The operator and the loop in turns; the best of each, since neighbours only ever slow down."""
    sent = await recorded(lab, count)
    found: dict[str, list[Figures]] = {"floor": [], "operator": []}
    for number in range(rounds):
        found["floor"].append(await by_loop(lab, f"floor-{number}", sent, count))
        found["operator"].append(await by_operator(lab, f"grow-{number}", count))
    return {who: min(figures, key=lambda one: one.ran) for who, figures in found.items()}


async def by_operator(lab: Lab, name: str, count: int) -> Figures:
    """The operator fills a NodeSet."""
    async with scene(lab, name) as stage:
        await stage.cluster()
        async with Operator(lab, name) as operator, watching(stage) as pods:
            await operator.quiet()
            began, cpu = time.monotonic(), operator.cpu
            await stage.workers(count)
            made, ran = await filled(pods, count)
            return Figures(made - began, ran - began, operator.cpu - cpu)


async def by_loop(lab: Lab, name: str, sent: list[Sent], count: int) -> Figures:
    """The same requests, sent by nobody in particular."""
    async with scene(lab, name) as stage, watching(stage) as pods:
        await stage.cluster()
        await stage.workers(count)
        work = iter([request async for request in addressed(stage, sent)])

        answered: Counter[bool] = Counter()

        async def loop() -> None:
            for request in work:
                answer = await stage.client.transport.request(
                    request.method, request.path, body=request.body, headers=request.headers, deadline=60
                )
                answered[answer.status < 400] += 1

        began, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(loop() for _ in range(MAX_CONCURRENT_REQUESTS)))
        cpu = time.process_time() - cpu
        made, ran = await filled(pods, count)
        return Figures(made - began, ran - began, cpu, answered.total(), answered[False])


async def recorded(lab: Lab, count: int) -> list[Sent]:
    """Every request of an operator that fills a NodeSet, watches apart; names and uids stand in braces."""
    async with scene(lab, "record") as stage:
        await stage.cluster()
        settings = OperatorSettings(
            kubeconfig=str(lab.kubeconfig), namespaces=("record",), cluster_domain="cluster.local", trial_seconds=0
        )
        with recording() as sent:
            running = asyncio.create_task(operate(settings))
            await asyncio.sleep(8)
            sent.clear()
            async with watching(stage) as pods:
                await stage.workers(count)
                await filled(pods, count)
            await asyncio.sleep(5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return [_replaced(request, {value: name for name, value in (await whose(stage)).items()}) for request in sent]


async def addressed(stage: Scene, sent: list[Sent]) -> AsyncIterator[Sent]:
    """The requests as they must be to work in this namespace."""
    names = await whose(stage)
    for request in sent:
        yield _replaced(request, names)


async def whose(stage: Scene) -> dict[str, str]:
    """What differs between two namespaces with the same objects."""
    controller = await stage.client.get(CONTROLLERS, Key(stage.namespace, "slurm"))
    node_set = await stage.client.get(NODE_SETS, Key(stage.namespace, "gpu"))
    return {
        "{controller}": controller.metadata.uid,
        "{nodeset}": node_set.metadata.uid,
        "{version}": f'"resourceVersion":"{node_set.metadata.resource_version}"',
        "{namespace}": stage.namespace,
    }


def _replaced(request: Sent, names: dict[str, str]) -> Sent:
    path, body = request.path, request.body
    for old, new in names.items():
        path = path.replace(f"/{old}/", f"/{new}/")
        body = body.replace(old.encode(), new.encode()) if body else body
    return request._replace(path=path, body=body)


@contextlib.contextmanager
def recording() -> Iterator[list[Sent]]:
    """Every request from here on, in order."""
    sent: list[Sent] = []
    send = AioTransport.request

    async def request(self: AioTransport, method: str, path: str, **more: Any) -> HttpResponse:
        if "/apis/apiextensions" not in path:
            sent.append(Sent(method, path, more.get("body"), dict(more.get("headers", {}))))
        return await send(self, method, path, **more)

    with mock.patch.object(AioTransport, "request", request):
        yield sent


@contextlib.asynccontextmanager
async def watching(stage: Scene) -> AsyncIterator[Cache[Pod]]:
    """The workers of a namespace as they come."""
    runtime = Runtime(stage.client)
    pods = runtime.cache(PODS, namespace=stage.namespace, labels="app.kubernetes.io/name=slurmd")
    task = asyncio.create_task(runtime.run())
    await pods.wait_synced(60)
    try:
        yield pods
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def filled(pods: Cache[Pod], count: int) -> tuple[float, float]:
    """The moments at which the last pod was there, and at which the last one was ready."""
    made: set[Key] = set()
    ready: set[Key] = set()
    moments = [0.0, 0.0]

    def changed(_: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        for index, (known, holds) in enumerate(((made, True), (ready, new.ready))):
            if holds and new.key not in known:
                known.add(new.key)
                moments[index] = time.monotonic()

    pods.listen(changed)

    async def all_ready() -> bool:
        return len(ready) >= count

    await until(all_ready, f"{count} pods", 900, every=0.02)
    return moments[0], moments[1]
