# SPDX-License-Identifier: Apache-2.0
"""Jobs that Slurm loses while their pods run: the pods keep their nodes, and evictions are rate limited.

The loss is real: slurmctld restarts with an older copy of its state, as after a restored backup or a crash.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from signal import SIGKILL, SIGTERM

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.integration.bridge.test_hetjobs import create_mixed_gang
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.lifecycle.decide import retries
from slinky.bridge.nodes import reconciler
from slinky.kube import KubeClient
from slinky.kube.conditions import find_condition
from slinky.lab.slurm.cluster import LabSlurm
from slinky.lab.slurm.conf import configuration
from slinky.slurm import Host, Listing, NodeUpdate, expand
from slinky.slurm import SlurmClient as Slurm

#: A job of another user, which slurmrestd cannot allocate at once.
AS_ALICE = {names.OPTION + "user-id": "alice", names.OPTION + "account": "lab"}
STATE, COPY = "/var/lib/slurm/ctld", "/var/lib/slurm/copy"


class SlurmctldState:
    """The state files of slurmctld. Each method but `crash` stops slurmctld in an orderly way; all start it again.

    `restore` and `wipe` can replace configuration files as well.
    """

    def __init__(self, slurm: LabSlurm) -> None:
        self._slurm = slurm

    async def save(self) -> None:
        """Save a copy."""
        await self._run_while_stopped(f"rm -rf {COPY}; cp -a {STATE} {COPY}")

    async def restore(self, files: Mapping[str, str] | None = None) -> None:
        """Go back to the saved copy: slurmctld loses every later job and change."""
        await self._run_while_stopped(f"rm -rf {STATE}; cp -a {COPY} {STATE}", files)

    async def crash(self) -> None:
        """Kill slurmctld; it starts with the saved copy, as if it had not saved its state since."""
        await self._run_while_stopped(f"rm -rf {STATE}; cp -a {COPY} {STATE}", signal=SIGKILL)

    async def wipe(self, files: Mapping[str, str] | None = None) -> None:
        """Delete all of it."""
        await self._run_while_stopped(f"find {STATE} -mindepth 1 -delete", files)

    async def _run_while_stopped(
        self, command: str, files: Mapping[str, str] | None = None, *, signal: int = SIGTERM
    ) -> None:
        def run() -> None:
            self._slurm.stop("slurmctld", signal)
            self._slurm.exec("sh", "-ec", command)
            for name, text in (files or {}).items():
                self._slurm.exec("sh", "-ec", f"cat > /etc/slurm/{name}", input=text)
            self._slurm.start("slurmctld")

        await asyncio.to_thread(run)


@pytest.fixture
async def two_nodes(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with two nodes that may evict one pod whose job is lost."""
    async with bridge_stage(kube, ctld, lost_pods_evicted=1) as stage:
        await stage.start()
        await stage.add_node(1)
        await stage.add_node(2)
        yield stage


async def run_two_pods(stage: BridgeStage, options: Mapping[str, str] | None = None) -> None:
    for name in ("a", "b"):
        await stage.run_pod(name, annotations=dict(options or {}))


async def occupy(stage: BridgeStage, host: str) -> int:
    """Start a job of another user on a host."""
    request = external_job(name="occupant", nodes="1", shared=("none",), required_nodes=(host,))
    return (await stage.slurm.allocate(request)).job_id


@pytest.mark.parametrize("options", [{}, AS_ALICE], ids=["own user", "other user"])
async def test_running_pods_of_a_lost_job_get_a_new_one_on_their_nodes(
    two_nodes: BridgeStage, slurm: LabSlurm, options: dict[str, str]
) -> None:
    state = SlurmctldState(slurm)
    await state.save()
    await run_two_pods(two_nodes, options)
    await two_nodes.create_pod("waiting")
    old = {name: await two_nodes.wait_job(name) for name in ("a", "b", "waiting")}
    await state.restore()

    async def replaced() -> bool:
        pods = {name: await two_nodes.get_pod(name) for name in old}
        assert all(names.JOB_LABEL in pod.metadata.labels for pod in pods.values())
        jobs = {name: await two_nodes.slurm.job(pod.metadata.labels[names.JOB_LABEL]) for name, pod in pods.items()}
        # slurmctld reuses ids after a loss, but never a SLUID.
        assert all(jobs[name].sluid != old[name].sluid for name in old)
        assert jobs["waiting"].state.pending
        return all(jobs[name].nodes == pods[name].spec.node_name and jobs[name].state.running for name in ("a", "b"))

    await eventually(replaced, "a new job for every pod")
    pods = [await two_nodes.get_pod(name) for name in old]
    assert not [(pod.metadata.name, pod.status.conditions) for pod in pods if pod.metadata.deleting]
    assert len(await two_nodes.jobs()) == 3
    job = await two_nodes.wait_job("a")
    await two_nodes.report_phase("a", "Succeeded", 0)
    await two_nodes.wait_state(job, "CANCELLED")
    await two_nodes.wait_bound("waiting")


async def test_a_running_pod_whose_job_slurm_has_not_started_any_more_gets_a_new_one(
    two_nodes: BridgeStage, slurm: LabSlurm
) -> None:
    """The daemon forgets that the job has started, and would start the job again, perhaps on another node."""
    state = SlurmctldState(slurm)
    await two_nodes.create_pod("a", annotations={names.OPTION + "begin": "2999-01-01T00:00:00Z"})
    old = await two_nodes.wait_job("a")
    await state.save()
    await asyncio.to_thread(slurm.exec, "scontrol", "update", f"JobId={old.job_id}", "StartTime=now")
    node = (await two_nodes.wait_bound("a")).spec.node_name
    await two_nodes.report_phase("a", "Running")
    await state.crash()

    async def replaced() -> bool:
        pod = await two_nodes.get_pod("a")
        assert not pod.metadata.deleting
        job = await two_nodes.slurm.job(pod.metadata.labels[names.JOB_LABEL])
        return job.sluid != old.sluid and job.state.running and job.nodes == node

    await eventually(replaced, "a new job on the node of the pod")
    await two_nodes.wait_state(old, "CANCELLED")


async def test_running_pods_of_a_lost_mixed_gang_get_a_job_for_each_role(
    three_nodes: BridgeStage, slurm: LabSlurm
) -> None:
    """And keep it if the bridge crashes before it has labelled the pods."""
    state, pods = SlurmctldState(slurm), [f"w-{number}" for number in range(3)]
    await state.save()
    await create_mixed_gang(three_nodes)
    for pod in pods:
        await three_nodes.wait_bound(pod)
        await three_nodes.report_phase(pod, "Running")
    old = (await three_nodes.wait_job("w-0")).sluid
    await state.restore()

    async def replaced() -> list[str]:
        found = [await three_nodes.get_pod(pod) for pod in pods]
        assert not any(pod.metadata.deleting for pod in found)
        jobs = [await three_nodes.slurm.job(pod.metadata.labels[names.JOB_LABEL]) for pod in found]
        assert all(job.state.running and job.sluid != old for job in jobs)
        assert jobs[0].nodes == found[0].spec.node_name
        assert jobs[1].sluid == jobs[2].sluid != jobs[0].sluid
        assert expand(jobs[1].nodes) == sorted(pod.spec.node_name for pod in found[1:])
        return [job.sluid for job in jobs]

    jobs = await eventually(replaced, "a new job for each role")
    await three_nodes.crash()
    lost = {"labels": {names.JOB_LABEL: "3999998"}, "annotations": {names.SLUID_ANNOTATION: None}}
    for pod in pods[1:]:
        await three_nodes.patch_pod(pod, {"metadata": lost})
    await three_nodes.start()
    assert await eventually(replaced, "the same jobs again") == jobs
    assert len(await three_nodes.jobs()) == 2
    for pod in pods:
        await three_nodes.report_phase(pod, "Succeeded", 0)

    async def over() -> bool:
        return await three_nodes.jobs() == []

    await eventually(over, "the end of both jobs")


async def test_a_lost_job_is_replaced_on_every_node_where_a_pod_is_left(
    two_nodes: BridgeStage, slurm: LabSlurm
) -> None:
    state = SlurmctldState(slurm)
    await state.save()
    label = await two_nodes.create_batch_job(4, options={names.OPTION + "pods-per-node": "2"})
    at: dict[str, list[str]] = {}
    for number in range(4):
        await two_nodes.create_pod(f"g-{number}", labels=label)
    for number in range(4):
        at.setdefault((await two_nodes.wait_bound(f"g-{number}")).spec.node_name, []).append(f"g-{number}")
        await two_nodes.report_phase(f"g-{number}", "Running")
    old = (await two_nodes.wait_job("g-0")).sluid
    left = [there.pop() for there in at.values()]
    for (ended,) in at.values():
        await two_nodes.report_phase(ended, "Succeeded", 0)
    await state.restore()

    async def replaced() -> bool:
        jobs = [await two_nodes.wait_job(name) for name in left]
        assert not any([(await two_nodes.get_pod(name)).metadata.deleting for name in left])
        assert {job.sluid for job in jobs} != {old}
        return all(job.state.running and set(expand(job.nodes)) == set(two_nodes.nodes) for job in jobs)

    await eventually(replaced, "one new job on both nodes")


@pytest.mark.parametrize("options", [{}, AS_ALICE], ids=["own user", "other user"])
async def test_evictions_of_pods_whose_nodes_have_other_jobs_are_limited(
    two_nodes: BridgeStage, slurm: LabSlurm, options: dict[str, str]
) -> None:
    state = SlurmctldState(slurm)
    await state.save()
    await run_two_pods(two_nodes, options)
    await two_nodes.crash()
    await state.restore()
    taken = [await occupy(two_nodes, host) for host in two_nodes.nodes]
    try:
        await two_nodes.start()

        async def current_reasons() -> dict[str, str]:
            conditions = {
                name: find_condition((await two_nodes.get_pod(name)).status.conditions, names.SCHEDULED)
                for name in ("a", "b")
            }
            reasons = {name: condition.reason if condition else "" for name, condition in conditions.items()}
            assert set(reasons.values()) == {"SlurmJobLost", "EvictionLimited"}, reasons
            return reasons

        reasons = await eventually(current_reasons, "one pod evicted, one kept by the rate limit")
        gone, kept = sorted(reasons, key=lambda name: reasons[name] == "EvictionLimited")
        await two_nodes.wait_evicted(gone, "SlurmJobLost")
        assert not (await two_nodes.get_pod(kept)).metadata.deleting
        for job in taken:
            assert (await two_nodes.slurm.job(job)).state.running  # the bridge leaves the jobs of others alone
    finally:
        for job in taken:
            await two_nodes.slurm.cancel(job)


async def test_a_pod_stays_while_its_node_is_refused_without_another_job_on_it(
    two_nodes: BridgeStage, slurm: LabSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal alone does not prove that another job has the node: here it drains."""
    monkeypatch.setattr(retries, "NOT_REPLACED", 1.0)
    state = SlurmctldState(slurm)
    await state.save()
    await run_two_pods(two_nodes)
    await two_nodes.crash()
    await state.restore()
    host = (await two_nodes.get_pod("a")).spec.node_name
    await two_nodes.slurm.update_node(host, NodeUpdate(state=["DRAIN"], reason="a bad fan"))
    await two_nodes.start()

    async def kept() -> bool:
        pod = await two_nodes.get_pod("a")
        assert not pod.metadata.deleting
        condition = find_condition(pod.status.conditions, names.SCHEDULED)
        return condition is not None and condition.reason == "LostJobNotReplaced"

    await eventually(kept, "reason LostJobNotReplaced on a")
    await two_nodes.slurm.update_node(host, NodeUpdate(state=["UNDRAIN"]))

    async def replaced() -> bool:
        assert not (await two_nodes.get_pod("a")).metadata.deleting
        job = await two_nodes.wait_job("a")
        return job.nodes == host and job.state.running

    await eventually(replaced, "a new job on its node")


@pytest.fixture
async def without_hosts(slurm: LabSlurm) -> AsyncIterator[SlurmctldState]:
    """Slurmctld without any state and without the hosts of its slurm.conf, until the end of the test."""
    state = SlurmctldState(slurm)
    await state.save()
    await state.wipe(host_files(slurm, 0))
    try:
        yield state
    finally:
        await state.restore(host_files(slurm, slurm.nodes))


def host_files(slurm: LabSlurm, count: int) -> dict[str, str]:
    """The configuration files that name hosts, with so many hosts."""
    files = configuration(slurm.address, count)
    return {name: files[name] for name in ("slurm.conf", "topology.conf")}


async def test_hosts_are_registered_again_when_slurm_has_lost_all_of_them(
    kube: KubeClient, ctld: Slurm, without_hosts: SlurmctldState
) -> None:
    """The bridge distrusts an empty list of hosts, but it may add what is missing."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        hosts = {await stage.add_node(1), await stage.add_node(2)}
        await without_hosts.wipe()

        async def registered() -> bool:
            listing = await ctld.nodes()
            return {host.name for host in (listing.items if listing else ())} == hosts

        await eventually(registered, "both hosts again")
        await stage.create_pod("after")
        await stage.wait_bound("after")


async def test_a_host_that_is_lost_before_the_mirror_had_it_is_registered_again(
    kube: KubeClient, ctld: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror never had the host, so it reports no loss."""
    read = ctld.nodes
    lost: list[str] = []

    async def without_changes(since: int | None = None) -> Listing[Host] | None:
        return await read(since=since) if lost or since is None else None

    monkeypatch.setattr(ctld, "nodes", without_changes)
    monkeypatch.setattr(reconciler, "REGISTERED_RETRY", 3.0)
    monkeypatch.setattr(reconciler, "UNKNOWN_RETRY", 3600.0)
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        name = await stage.add_node(1)
        await stage.quiet()
        await ctld.delete_nodes(name)
        lost.append(name)

        async def back() -> bool:
            return (await ctld.node(name)).state.idle

        await eventually(back, "the host again")
