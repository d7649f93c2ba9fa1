# SPDX-License-Identifier: Apache-2.0
"""Jobs that Slurm loses under running pods: the pods keep their nodes, and are never deleted in numbers.

The loss is real: slurmctld is given back its state of a minute ago, as a restored backup or a crash would.
"""

import asyncio
from collections.abc import AsyncIterator
from signal import SIGTERM

import pytest
from tests.conftest import MakeLab
from tests.integration.bridge.scene import Scene, eventually, scene
from tests.integration.bridge.test_failures import leaves
from tests.integration.bridge.test_gangs import batch_job
from tests.integration.bridge.test_roles import SLOW, mixed

from slinky.bridge import names
from slinky.bridge.nodes import reconciler
from slinky.bridge.state.views import OUR_PODS
from slinky.kube import Key, KubeClient
from slinky.kube.conditions import find_condition
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import Host, JobRequest, Listing, MintedToken, NodeUpdate, expand
from slinky.slurm import SlurmClient as Slurm

STATE, KEPT = "/var/lib/slurm/ctld", "/var/lib/slurm/kept"


class Memory:
    """What slurmctld remembers."""

    def __init__(self, slurm: Beside) -> None:
        self._slurm = slurm

    async def keep(self) -> None:
        """Write everything down and put a copy aside."""
        await self._swap(f"rm -rf {KEPT}; cp -a {STATE} {KEPT}")

    async def lose(self) -> None:
        """Go back to the copy: whatever came since then never happened."""
        await self._swap(f"rm -rf {STATE}; cp -a {KEPT} {STATE}")

    async def lose_all(self) -> None:
        """Begin anew."""
        await self._swap(f"find {STATE} -mindepth 1 -delete")

    async def _swap(self, command: str) -> None:
        def between() -> None:
            self._slurm.stop("slurmctld", SIGTERM)
            self._slurm.exec("sh", "-ec", command)
            self._slurm.start("slurmctld")

        await asyncio.to_thread(between)


@pytest.fixture
async def pair(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """A bridge that may evict one pod whose job is lost, with two nodes."""
    async with scene(kube, ctld, lost_pods_evicted=1) as stage:
        await stage.start()
        await stage.node(1)
        await stage.node(2)
        yield stage


async def both_run(stage: Scene) -> None:
    for name in ("a", "b"):
        await stage.pod(name)
        await stage.bound(name)
        await stage.phase(name, "Running")


async def squat(stage: Scene, host: str) -> int:
    """Somebody else takes a host."""
    request = JobRequest(
        name="squatter", partition="ext", flags=("EXTERNAL_JOB",), nodes="1", shared=("none",), required_nodes=(host,)
    )
    return (await stage.slurm.allocate(request)).job_id


async def test_running_pods_of_a_lost_job_get_a_new_one_on_their_nodes(pair: Scene, slurm: Beside) -> None:
    memory = Memory(slurm)
    await memory.keep()
    await both_run(pair)
    await pair.pod("waiting")
    old = {name: await pair.job_of(name) for name in ("a", "b", "waiting")}
    await memory.lose()

    async def settled() -> bool:
        pods = {name: await pair.get(name) for name in old}
        assert all(names.JOB_LABEL in pod.metadata.labels for pod in pods.values())
        jobs = {name: await pair.slurm.job(pod.metadata.labels[names.JOB_LABEL]) for name, pod in pods.items()}
        # Ids are used again after a loss, so it is the name that is never used again that tells them apart.
        assert all(jobs[name].sluid != old[name].sluid for name in old)
        assert jobs["waiting"].state.pending
        return all(jobs[name].nodes == pods[name].spec.node_name and jobs[name].state.running for name in ("a", "b"))

    await eventually(settled, "a new job for every pod", 90)
    found = [await pair.get(name) for name in old]
    assert not [(pod.metadata.name, pod.status.conditions) for pod in found if pod.metadata.deleting]
    assert len(await pair.jobs()) == 3
    job = await pair.job_of("a")
    await pair.phase("a", "Succeeded", 0)
    await pair.state(job, "CANCELLED")
    await pair.bound("waiting", 60)


async def test_running_pods_of_a_lost_mixed_gang_get_a_job_for_each_role(trio: Scene, slurm: Beside) -> None:
    """And keep it, if the bridge dies before it could write that down."""
    memory, pods = Memory(slurm), [f"w-{number}" for number in range(3)]
    await memory.keep()
    await mixed(trio)
    for pod in pods:
        await trio.bound(pod, SLOW)
        await trio.phase(pod, "Running")
    old = (await trio.job_of("w-0")).sluid
    await memory.lose()

    async def settled() -> list[str]:
        found = [await trio.get(pod) for pod in pods]
        assert not any(pod.metadata.deleting for pod in found)
        jobs = [await trio.slurm.job(pod.metadata.labels[names.JOB_LABEL]) for pod in found]
        assert all(job.state.running and job.sluid != old for job in jobs)
        assert jobs[0].nodes == found[0].spec.node_name
        assert jobs[1].sluid == jobs[2].sluid != jobs[0].sluid
        assert expand(jobs[1].nodes) == sorted(pod.spec.node_name for pod in found[1:])
        return [job.sluid for job in jobs]

    jobs = await eventually(settled, "a new job for each role", 90)
    await trio.crash()
    lost = {"labels": {names.JOB_LABEL: "3999998"}, "annotations": {names.SLUID_ANNOTATION: None}}
    for pod in pods[1:]:
        await trio.client.patch(OUR_PODS, Key(trio.namespace, pod), {"metadata": lost})
    await trio.start()
    assert await eventually(settled, "the same jobs again", 90) == jobs
    assert len(await trio.jobs()) == 2
    for pod in pods:
        await trio.phase(pod, "Succeeded", 0)

    async def over() -> bool:
        return await trio.jobs() == []

    await eventually(over, "the end of both jobs")


async def test_a_lost_job_is_replaced_on_every_node_where_a_pod_is_left(pair: Scene, slurm: Beside) -> None:
    memory = Memory(slurm)
    await memory.keep()
    label = await batch_job(pair, 4, **{names.OPTION + "pods-per-node": "2"})
    at: dict[str, list[str]] = {}
    for number in range(4):
        await pair.pod(f"g-{number}", labels=label)
    for number in range(4):
        at.setdefault((await pair.bound(f"g-{number}")).spec.node_name, []).append(f"g-{number}")
        await pair.phase(f"g-{number}", "Running")
    old = (await pair.job_of("g-0")).sluid
    left = [there.pop() for there in at.values()]
    for (ended,) in at.values():
        await pair.phase(ended, "Succeeded", 0)
    await memory.lose()

    async def replaced() -> bool:
        jobs = [await pair.job_of(name) for name in left]
        assert not any([(await pair.get(name)).metadata.deleting for name in left])
        assert {job.sluid for job in jobs} != {old}
        return all(job.state.running and set(expand(job.nodes)) == set(pair.nodes) for job in jobs)

    await eventually(replaced, "one new job on both nodes", 90)


async def test_pods_whose_nodes_were_given_away_leave_a_few_at_a_time(pair: Scene, slurm: Beside) -> None:
    memory = Memory(slurm)
    await memory.keep()
    await both_run(pair)
    await pair.crash()
    await memory.lose()
    taken = [await squat(pair, host) for host in pair.nodes]
    try:
        await pair.start()

        async def told() -> dict[str, str]:
            found = {
                name: find_condition((await pair.get(name)).status.conditions, names.SCHEDULED) for name in ("a", "b")
            }
            reasons = {name: condition.reason if condition else "" for name, condition in found.items()}
            assert set(reasons.values()) == {"SlurmJobLost", "EvictionLimited"}, reasons
            return reasons

        reasons = await eventually(told, "one pod leaves and one is kept by the brake", 60)
        gone, kept = sorted(reasons, key=lambda name: reasons[name] == "EvictionLimited")
        await leaves(pair, gone, "SlurmJobLost")
        assert not (await pair.get(kept)).metadata.deleting
        for job in taken:
            assert (await pair.slurm.job(job)).state.running  # whoever has the nodes now is left alone
    finally:
        for job in taken:
            await pair.slurm.cancel(job)


async def test_a_pod_stays_while_its_node_is_refused_for_another_reason_than_other_work(
    pair: Scene, slurm: Beside
) -> None:
    """A refusal alone is no proof that somebody else has the node: here it drains."""
    memory = Memory(slurm)
    await memory.keep()
    await both_run(pair)
    await pair.crash()
    await memory.lose()
    host = (await pair.get("a")).spec.node_name
    await pair.slurm.update_node(host, NodeUpdate(state=["DRAIN"], reason="a bad fan"))
    await pair.start()

    async def told() -> bool:
        pod = await pair.get("a")
        assert not pod.metadata.deleting
        condition = find_condition(pod.status.conditions, names.SCHEDULED)
        return condition is not None and condition.reason == "LostJobNotReplaced"

    await eventually(told, "the pod stays and says so", 60)
    await pair.slurm.update_node(host, NodeUpdate(state=["UNDRAIN"]))

    async def replaced() -> bool:
        assert not (await pair.get("a")).metadata.deleting
        job = await pair.job_of("a")
        return job.nodes == host and job.state.running

    await eventually(replaced, "a new job on its node", 90)


async def test_hosts_are_registered_again_when_slurm_has_forgotten_every_one(
    kube: KubeClient, make_lab: MakeLab
) -> None:
    """A list without any host is not believed, but to add what is missing needs no belief."""
    slurm = make_lab(nodes=0, slurm="beside", slurm_nodes=0).slurm
    async with (
        Slurm(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as ctld,
        scene(kube, ctld) as stage,
    ):
        await stage.start()
        hosts = {await stage.node(1), await stage.node(2)}
        await Memory(slurm).lose_all()

        async def back() -> bool:
            listing = await ctld.nodes()
            return {host.name for host in (listing.items if listing else ())} == hosts

        await eventually(back, "both hosts again", 90)
        await stage.pod("after")
        await stage.bound("after")


async def test_a_host_that_is_lost_before_it_was_seen_is_made_again(
    kube: KubeClient, ctld: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror never had it, so it tells of no loss."""
    read = ctld.nodes
    lost: list[str] = []

    async def looking_away(since: int | None = None) -> Listing[Host] | None:
        return await read(since=since) if lost or since is None else None

    monkeypatch.setattr(ctld, "nodes", looking_away)
    monkeypatch.setattr(reconciler, "REGISTERED_RETRY", 3.0)
    monkeypatch.setattr(reconciler, "UNKNOWN_RETRY", 3600.0)
    async with scene(kube, ctld) as stage:
        await stage.start()
        name = await stage.node(1)
        await asyncio.sleep(1)  # whatever else wakes the bridge has done so
        await ctld.delete_nodes(name)
        lost.append(name)

        async def back() -> bool:
            return (await ctld.node(name)).state.idle

        await eventually(back, "the host again", 30)
