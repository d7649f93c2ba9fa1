# SPDX-License-Identifier: Apache-2.0
"""Laws of leader election: there are never two leaders, whatever the clocks show."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import PODS, Election, Key, KubeClient, LeadershipLost, LeaseTiming, connect
from slinky.kube.errors import Unreachable
from slinky.kube.lease import connect_election
from slinky.kube.transport import HttpResponse
from slinky.observe import ManualClock

LEASE = Key("ns", "lease")
PARALLEL = 64  # requests that one connection sends at once


class LeaseServer(Scripted):
    """Keeps one lease, with versions and conflicts."""

    def __init__(self) -> None:
        super().__init__()
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> HttpResponse:
        if self.down:
            raise Unreachable("down")
        given = msgspec.json.decode(body) if body else {}
        match method, self.lease:
            case "GET", None:
                return answer(404, {"code": 404, "reason": "NotFound"})
            case "GET", lease:
                return answer(200, lease)
            case "POST", None:
                self.lease = {"metadata": given["metadata"], "spec": given["spec"]}
            case "PATCH", dict(lease):
                if given["metadata"]["resourceVersion"] != str(self.version):
                    return answer(409, {"code": 409, "reason": "Conflict"})
                lease["spec"] |= given["spec"]
            case _:
                return answer(409, {"code": 409, "reason": "AlreadyExists"})
        self.version += 1
        assert self.lease
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return answer(200, self.lease)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Rig:
    def __init__(self) -> None:
        self.clock, self.server = ManualClock(), LeaseServer()
        self.leading: list[str] = []

    def candidate(self, name: str) -> "asyncio.Task[None]":
        client = KubeClient(self.server, clock=self.clock, rng=random.Random(name))  # noqa: S311
        election = Election(client, LEASE, name, timing=LeaseTiming())

        async def work() -> None:
            self.leading.append(name)
            assert len(self.leading) == 1
            try:
                await asyncio.Event().wait()
            finally:
                self.leading.remove(name)

        return asyncio.ensure_future(election.lead(work))


async def ended(*candidates: "asyncio.Task[None]") -> None:
    """Stop candidates; what went wrong in one of them is not lost."""
    for task in candidates:
        task.cancel()
    for result in await asyncio.gather(*candidates, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError)


async def test_one_leads_and_the_other_waits() -> None:
    rig = Rig()
    one, two = rig.candidate("one"), rig.candidate("two")
    await rig.clock.advance(300.0)
    assert len(rig.leading) == 1
    await ended(one, two)


async def test_a_leader_that_stops_releases_the_lease_at_once() -> None:
    rig = Rig()
    one = rig.candidate("one")
    await rig.clock.advance(1.0)
    two = rig.candidate("two")
    await rig.clock.advance(1.0)
    await ended(one)
    await rig.clock.advance(5.0)  # far less than the lease's duration
    assert rig.leading == ["two"]
    await ended(two)


async def test_a_disconnected_leader_stops_before_another_can_start() -> None:
    rig = Rig()
    one = rig.candidate("one")
    await rig.clock.advance(1.0)
    rig.server.down = True
    await rig.clock.advance(13.0)
    assert rig.leading == []
    with pytest.raises(LeadershipLost):
        await one
    rig.server.down = False
    two = rig.candidate("two")
    await rig.clock.advance(14.0)
    assert rig.leading == []  # unchanged for less than its duration
    await rig.clock.advance(5.0)
    assert rig.leading == ["two"]
    await ended(two)


async def test_a_jump_of_the_wall_clock_does_not_expire_a_lease() -> None:
    rig = Rig()
    one = rig.candidate("one")
    await rig.clock.advance(1.0)
    two = rig.candidate("two")
    await rig.clock.advance(1.0)
    for jump in (86_400.0, -172_800.0):
        rig.clock.jump(jump)
        await rig.clock.advance(60.0)
        assert rig.leading == ["one"]
    await ended(one, two)


async def test_a_stolen_lease_ends_the_work() -> None:
    rig = Rig()
    one = rig.candidate("one")
    await rig.clock.advance(1.0)
    assert rig.server.lease
    rig.server.lease["spec"]["holderIdentity"] = "thief"
    rig.server.version += 1
    rig.server.lease["metadata"]["resourceVersion"] = str(rig.server.version)
    await rig.clock.advance(3.0)
    with pytest.raises(LeadershipLost, match="thief"):
        await one
    assert rig.server.holder == "thief"  # only the holder releases a lease


async def test_an_error_of_the_work_passes_through_and_frees_the_lease() -> None:
    rig = Rig()
    client = KubeClient(rig.server, clock=rig.clock, rng=random.Random(1))  # noqa: S311

    async def work() -> None:
        raise ValueError("bug")

    with pytest.raises(ExceptionGroup) as raised:
        await Election(client, LEASE, "one").lead(work)
    assert raised.group_contains(ValueError)
    assert rig.server.holder == ""


async def test_the_lease_is_renewed_while_all_other_requests_hang(tmp_path: Path) -> None:
    store, occupied, resumed = LeaseServer(), asyncio.Event(), asyncio.Event()
    hanging: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if "/leases" not in request.path:
            hanging.append(request.path)
            if len(hanging) == PARALLEL:
                occupied.set()
            await resumed.wait()
            return web.json_response({"code": 404, "reason": "NotFound"}, status=404)
        response = await store.request(request.method, request.path, body=body)
        return web.Response(status=response.status, body=response.body, content_type="application/json")

    async def work() -> None:
        assert store.holder == "one"

    runner = web.ServerRunner(web.Server(handle), handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    async with connect(kubeconfig) as client, connect_election("lease", "one", kubeconfig=kubeconfig) as election:
        requests = [asyncio.create_task(client.find(PODS, Key("ns", f"p{number}"))) for number in range(PARALLEL)]
        await occupied.wait()
        await election.lead(work)
        resumed.set()
        await asyncio.gather(*requests)
    await runner.cleanup()
