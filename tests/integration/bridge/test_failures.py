# SPDX-License-Identifier: Apache-2.0
"""Failures of Slurm, of nodes and of the bridge, and what must not follow from them.

docs/bridge/failures.md lists these tests by event.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.support.job_requests import external_job
from tests.support.slurm_settings import restart_slurmctld
from tests.support.slurmrestd_proxy import SlurmrestdProxy, hung, page
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import NODES, Key, KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobRequest, MintedToken, NodeUpdate, Presence
from slinky.slurm import SlurmClient as Slurm

OPTION = names.OPTION
#: Seconds after which the bridge gives up a request in these tests.
DEADLINE = 3
SUBMISSIONS = ("submit", "allocate")
FAULTS = {"404": page(404, "Not Found"), "401": page(401, "Authentication failure"), "hang": hung()}


class ProxiedStage(NamedTuple):
    """A stage whose bridge reaches Slurm through a proxy; the test itself does not."""

    stage: BridgeStage
    proxy: SlurmrestdProxy
    client: Slurm


@pytest.fixture
async def proxied(kube: KubeClient, ctld: Slurm, slurm: LabSlurm) -> AsyncIterator[ProxiedStage]:
    """A running bridge behind a proxy, with one node."""
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    async with (
        SlurmrestdProxy(slurm.url) as proxy,
        Slurm(proxy.url, tokens, deadline=DEADLINE) as client,
        bridge_stage(kube, client) as stage,
    ):
        await stage.start()
        await stage.add_node()
        stage.slurm = ctld
        yield ProxiedStage(stage, proxy, client)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_unreachable_slurm_costs_no_pod(proxied: ProxiedStage, fault: str) -> None:
    stage, proxy, _ = proxied
    await stage.run_pod()
    job = await stage.wait_job()
    proxy.fault = FAULTS[fault]
    await stage.create_pod("late")
    await stage.wait_reason("late", "SlurmUnreachable")
    if fault == "hang":
        assert stage.bridge is not None
        mirror = stage.bridge.mirror
        await eventually(lambda: mirror.lookup_job(job.job_id).presence is Presence.UNKNOWN, "an unknown state")
    assert not (await stage.get_pod("p")).metadata.deleting
    await stage.report_phase("p", "Succeeded", 0)
    await eventually(lambda: proxy.faults > 3, "requests that failed or were given up")
    await stage.quiet()
    assert names.FINALIZER in (await stage.get_pod("p")).metadata.finalizers  # its job could not be ended yet
    proxy.fault = None
    await stage.wait_bound("late")
    await stage.wait_released("p")


async def test_without_accounting_pods_run_and_their_outcome_is_recorded_later(
    stage: BridgeStage, slurm: LabSlurm
) -> None:
    await asyncio.to_thread(slurm.stop, "slurmdbd")
    try:
        await stage.run_pod()
        job = await stage.wait_job()
        await stage.report_phase("p", "Failed", 3)
        await stage.wait_state(job, "CANCELLED")
        await stage.wait_released()
    finally:
        await asyncio.to_thread(slurm.start, "slurmdbd")

    async def recorded() -> bool:
        return "Failed, exit code 3" in (await stage.slurm.accounting.job(job.job_id)).comment.job

    await eventually(recorded, "the outcome in accounting")


async def test_without_the_completer_the_outcome_is_in_accounting(
    kube: KubeClient, ctld: Slurm, tmp_path: Path
) -> None:
    async with bridge_stage(kube, ctld, completer_socket=str(tmp_path / "missing")) as stage:
        await stage.start()
        await stage.add_node()
        await stage.run_pod()
        job = await stage.wait_job()
        await stage.report_phase("p", "Failed", 3)
        await stage.wait_state(job, "CANCELLED")
        await stage.wait_released()

        async def recorded() -> bool:
            past = await stage.slurm.accounting.job(job.job_id)
            return "Failed, exit code 3" in past.comment.job and past.derived_exit_code.code == 3

        await eventually(recorded, "the outcome in accounting")


async def test_a_submission_whose_response_is_lost_is_adopted_and_not_repeated(proxied: ProxiedStage) -> None:
    stage, proxy, _ = proxied
    losses = iter([True])
    proxy.loses_response = lambda request: "/job/" in request.path and request.method == "POST" and next(losses, False)
    await stage.create_pod()
    await stage.wait_bound()
    submissions = [path for method, path in proxy.requests if method == "POST" and path.endswith(SUBMISSIONS)]
    assert len(submissions) == 1
    assert len(await stage.jobs()) == 1


async def test_waiting_pods_cost_few_requests(proxied: ProxiedStage) -> None:
    stage, proxy, _ = proxied
    await stage.run_pod()
    for number in range(20):
        await stage.create_pod(f"w{number}")
    for number in range(20):
        await stage.wait_job(f"w{number}")

    async def calm() -> bool:
        proxy.requests.clear()
        begin = time.monotonic()
        await asyncio.sleep(4)
        rate = len(proxy.requests) * 60 / (time.monotonic() - begin)
        assert rate < 240, proxy.requests
        return not [path for _, path in proxy.requests if path.endswith("/jobs/")]

    await eventually(calm, "fewer than four requests a second, none for all jobs")


async def test_a_slurmctld_restart_costs_no_pod(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.run_pod()
    await stage.create_pod("waiting")
    job = await stage.wait_job("waiting")
    await asyncio.to_thread(restart_slurmctld, slurm)
    await stage.settle()
    assert not (await stage.get_pod("p")).metadata.deleting
    assert (await stage.wait_job("waiting")).sluid == job.sluid
    await stage.report_phase("p", "Succeeded", 0)
    await stage.wait_bound("waiting")


async def test_after_a_crash_of_slurmctld_every_pod_has_a_live_job_again(
    three_nodes: BridgeStage, slurm: LabSlurm
) -> None:
    """Slurmctld forgets the last seconds before a crash: some of the jobs that have just started, waited or ended."""
    await asyncio.to_thread(restart_slurmctld, slurm)  # its end writes the state files that a crash leaves behind
    pods = {}
    for name in ("a", "b", "ended"):
        pods[name] = (await three_nodes.create_pod(name)).metadata.uid
        await three_nodes.wait_bound(name)
        await three_nodes.report_phase(name, "Running")
    pods["waiting"] = (await three_nodes.create_pod("waiting")).metadata.uid
    await three_nodes.wait_job("waiting")
    await asyncio.to_thread(slurm.stop, "slurmctld")
    await three_nodes.report_phase("ended", "Succeeded", 0)
    await asyncio.to_thread(slurm.start, "slurmctld")
    del pods["ended"]  # its node is free for the pod that waits

    async def healthy() -> bool:
        for name, uid in pods.items():
            pod = await three_nodes.get_pod(name)
            assert (pod.metadata.uid, pod.metadata.deleting) == (uid, False), pod
            assert names.JOB_LABEL in pod.metadata.labels, name  # else its job was lost and another one is submitted
            job = await three_nodes.slurm.job(pod.metadata.labels[names.JOB_LABEL])
            assert job.state.running, (name, job)
            assert job.nodes == pod.spec.node_name
            assert f"{three_nodes.namespace}/{name}" in job.admin_comment
        return len(await three_nodes.jobs()) == len(pods)

    await eventually(healthy, "one live job for every pod, and no other")
    pod = await three_nodes.find_pod("ended")
    assert pod is None or names.FINALIZER not in pod.metadata.finalizers


@pytest.mark.parametrize("written", [False, True], ids=["id", "sluid"])
async def test_a_label_with_the_id_of_a_foreign_job_is_ignored(stage: BridgeStage, written: bool) -> None:
    """Nor does the bridge trust a SLUID annotation as long as it has not bound the pod itself."""
    foreign = (await stage.slurm.submit(external_job(name="foreign", hold=True))).job_id
    annotations = {names.SLUID_ANNOTATION: (await stage.slurm.job(foreign)).sluid} if written else {}
    try:
        await stage.create_pod(labels={names.JOB_LABEL: str(foreign)}, annotations=annotations)
        await stage.wait_bound()
        assert (await stage.wait_job()).job_id != foreign
        await stage.report_phase("p", "Succeeded", 0)
        await stage.wait_state(await stage.wait_job(), "CANCELLED")
        assert (await stage.slurm.job(foreign)).state.pending
    finally:
        await stage.slurm.cancel(foreign)


async def test_a_pod_is_not_bound_to_the_node_of_a_failed_job(stage: BridgeStage) -> None:
    await stage.run_pod("first")
    job = await stage.start_waiting_job_while_down("first", "second")
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DOWN",), reason="test"))
    assert (await stage.wait_state(job, "NODE_FAIL")).nodes == stage.nodes[0]  # it has ended, and still names its node
    await stage.start()

    async def submitted_again() -> bool:
        return (await stage.wait_job("second")).sluid != job.sluid

    await eventually(submitted_again, "another job")
    assert not (await stage.get_pod("second")).spec.node_name
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("RESUME",)))
    await stage.report_stopped("first")
    await stage.wait_bound("second")


async def test_a_rewritten_comment_costs_no_pod(stage: BridgeStage) -> None:
    await stage.run_pod()
    job = await stage.wait_job()
    await stage.slurm.update_job(job.job_id, JobRequest(admin_comment="mine now"))
    await stage.crash()
    await stage.start()
    await stage.settle()
    assert not (await stage.get_pod()).metadata.deleting
    await stage.report_phase("p", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED")


async def test_a_new_pod_with_an_old_name_gets_its_own_job(stage: BridgeStage) -> None:
    await stage.run_pod()
    old = await stage.wait_job()
    await stage.patch_pod("p", {"metadata": {"finalizers": None}})
    await stage.delete_pod("p", grace=0)
    await stage.create_pod()
    await stage.wait_bound()
    assert (await stage.wait_job()).sluid != old.sluid
    await stage.wait_state(old, "CANCELLED")


async def test_a_dead_kubelet_does_not_hold_its_job_for_ever(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, dead_kubelet_seconds=1) as stage:
        await stage.start()
        node = await stage.add_node()
        await stage.create_pod(terminationGracePeriodSeconds=1)
        await stage.wait_bound()
        await stage.report_phase("p", "Running")
        job = await stage.wait_job()
        await stage.delete_pod("p")
        await asyncio.sleep(3)  # longer than the grace period and `dead_kubelet_seconds` together
        assert (await stage.slurm.job(job.job_id)).state.running  # the kubelet reports: it may just be slow
        await stage.report_node(node, ready=False)
        await stage.wait_state(job, "CANCELLED")
        await stage.wait_event("p", "PodGivenUp")
        await stage.wait_released()


async def test_a_deleted_pod_of_a_removed_node_is_released(stage: BridgeStage) -> None:
    await stage.create_pod(terminationGracePeriodSeconds=1)
    await stage.wait_bound()
    await stage.report_phase("p", "Running")
    job = await stage.wait_job()
    await stage.client.delete(NODES, Key("", stage.nodes[0]))
    await stage.delete_pod("p")
    await stage.wait_state(job, "CANCELLED")


async def test_pods_of_a_host_that_fails_in_slurm_are_evicted(stage: BridgeStage) -> None:
    await stage.run_pod()
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DOWN",), reason="test"))
    await stage.wait_evicted("p", "SlurmNodeFailed")
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("RESUME",)))


async def test_the_time_limit_evicts_a_pod_with_the_reason(stage: BridgeStage) -> None:
    await stage.run_pod()
    job = await stage.wait_job()
    await stage.slurm.update_job(job.job_id, JobRequest(end_time=int(time.time()) + 1))
    await stage.wait_evicted("p", "SlurmJobTimeout", final=True)


async def test_two_bridges_on_one_slurm_do_not_disturb_each_other(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld) as first, bridge_stage(kube, ctld) as second:
        await first.start()
        await first.add_node()
        await second.start()
        await second.add_node()
        for stage in (first, second):
            await stage.run_pod()
        await second.create_pod("waiting")
        await second.wait_reason("waiting", "Resources")
        await first.crash()
        await first.start()
        await first.settle()
        assert (len(await first.jobs()), len(await second.jobs())) == (1, 2)
        for stage in (first, second):
            assert not (await stage.get_pod()).metadata.deleting
            assert not (await stage.slurm.node(stage.nodes[0])).state.draining


async def test_a_node_that_became_infeasible_is_given_back(proxied: ProxiedStage) -> None:
    """The job ends and another one is submitted, which excludes the node; it is not submitted again and again."""
    stage, proxy, client = proxied
    await stage.run_pod("first")
    job = await stage.start_waiting_job_while_down("first", "second")
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), taint)
    proxy.requests.clear()
    stage.slurm, ctld = client, stage.slurm
    await stage.start()
    stage.slurm = ctld
    await stage.report_stopped("first")
    await stage.wait_state(job, "CANCELLED")
    await stage.wait_reason("second", "SlurmRefused")
    await stage.settle()
    assert not (await stage.get_pod("second")).spec.node_name
    assert await stage.jobs() == []
    assert len([path for method, path in proxy.requests if method == "POST" and path.endswith(SUBMISSIONS)]) <= 2
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"spec": {"taints": []}})
    await stage.wait_bound("second")


async def test_deleting_a_host_that_a_waiting_job_excludes_costs_no_pod(stage: BridgeStage, slurm: LabSlurm) -> None:
    first, other = stage.nodes[0], await stage.add_node(2)
    for name, node in (("p", first), ("q", other)):
        await stage.create_pod(name, nodeSelector={"kubernetes.io/hostname": node})
        await stage.wait_bound(name)
        await stage.report_phase(name, "Running")
    await stage.create_pod(
        "waiting", nodeSelector={"kubernetes.io/hostname": first}
    )  # its job excludes the other host by name
    await stage.wait_reason("waiting", "Resources")
    job = await stage.wait_job("waiting")
    assert job.excluded_nodes == other
    await stage.report_phase("q", "Succeeded", 0)
    await stage.client.delete(NODES, Key("", other))

    async def deleted() -> bool:
        listing = await stage.slurm.nodes()
        return listing is not None and other not in {host.name for host in listing.items}

    await eventually(deleted, "the end of the host")
    await asyncio.to_thread(restart_slurmctld, slurm)
    await stage.settle()
    assert not (await stage.get_pod("p")).metadata.deleting
    assert (await stage.slurm.job(job.sluid)).state.pending
    await stage.report_phase("p", "Succeeded", 0)
    await stage.wait_bound("waiting")
