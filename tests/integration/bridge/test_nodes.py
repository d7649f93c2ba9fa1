# SPDX-License-Identifier: Apache-2.0
"""Kubernetes nodes and their hosts in Slurm."""

import asyncio
from functools import partial

import msgspec
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import NODES, PODS, Key, KubeClient
from slinky.kube.conditions import find_condition
from slinky.slurm import Host, NodeUpdate
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmNotFound as NoHost
from slinky.slurm.mirror.polling import Source, Urgency


async def wait_host(stage: BridgeStage, *flags: str, without: tuple[str, ...] = ()) -> Host:
    """Wait until the host of the first node has these state flags, and not those in `without`."""

    async def current() -> Host:
        host = await stage.slurm.node(stage.nodes[0])
        assert all(flag in host.state for flag in flags), host.state
        assert not any(flag in host.state for flag in without), host.state
        return host

    return await eventually(current, f"the host with {flags} and without {without}")


async def wait_host_deleted(stage: BridgeStage) -> None:
    async def deleted() -> bool:
        try:
            await stage.slurm.node(stage.nodes[0])
        except NoHost:
            return True
        return False

    await eventually(deleted, "the end of the host")


async def test_a_labelled_node_becomes_an_external_host_of_its_size(stage: BridgeStage) -> None:
    host = await wait_host(stage, "EXTERNAL")
    assert (host.cpus, host.real_memory, host.features) == (4, 8192, ("ext",))
    assert host.address == "127.0.0.1"

    async def tainted() -> bool:
        taints = (await stage.get_node(stage.nodes[0])).spec.taints
        return any(t.key == names.MANAGED_TAINT and t.effect == "NoExecute" for t in taints)

    await eventually(tainted, "the taint")


async def test_a_cordon_drains_and_its_end_undrains(stage: BridgeStage) -> None:
    await stage.cordon(stage.nodes[0])
    assert (await wait_host(stage, "DRAIN")).reason.startswith(names.DRAIN_PREFIX)
    await stage.cordon(stage.nodes[0], False)
    await wait_host(stage, without=("DRAIN",))


async def test_a_cordon_does_not_wait_for_the_next_list_of_hosts(stage: BridgeStage) -> None:
    await wait_host(stage, "EXTERNAL")
    assert stage.bridge is not None
    mirror = stage.bridge.mirror
    # As with a thousand hosts while jobs come and go: the mirror defers the list of hosts, and its table ages.
    long = dict.fromkeys(("active_after_change", "nodes_delay", "idle_nodes"), 600.0)
    mirror._intervals = msgspec.structs.replace(mirror._intervals, expensive_nodes=0.0, **long)
    await asyncio.sleep(3)  # the bridge reads a new host once more, even if nothing changes
    mirror.request_refresh()
    mirror._poll[Source.NODES].request(Urgency.SOON)
    mirror.nodes._confirmed_at = float("-inf")
    await stage.cordon(stage.nodes[0])
    await wait_host(stage, "DRAIN")


async def test_many_nodes_are_registered_drained_and_resumed_together(stage: BridgeStage) -> None:
    await asyncio.gather(*(stage.add_node(number) for number in range(2, 22)))

    async def all_are(draining: bool) -> bool:
        listing = await stage.slurm.nodes()
        hosts = [host for host in (listing.items if listing else ()) if host.name in stage.nodes]
        assert {host.address for host in hosts} == {"127.0.0.1"}
        return len(hosts) == len(stage.nodes) and all(host.state.draining is draining for host in hosts)

    for cordoned in (True, False):
        await asyncio.gather(*(stage.cordon(name, cordoned) for name in stage.nodes))
        await eventually(partial(all_are, cordoned), f"every host to have draining {cordoned}")


async def test_an_administrators_drain_stays_and_shows_on_the_node(stage: BridgeStage) -> None:
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DRAIN",), reason="disk broken"))

    async def has_condition() -> bool:
        condition = find_condition((await stage.get_node(stage.nodes[0])).status.conditions, names.HOST_CONDITION)
        return condition is not None and condition.status == "False" and "disk broken" in condition.message

    await eventually(has_condition, "the condition")
    await stage.cordon(stage.nodes[0])
    await stage.cordon(stage.nodes[0], False)
    await stage.settle()
    assert (await wait_host(stage, "DRAIN")).reason == "disk broken"


async def test_a_node_that_is_not_ready_is_drained_until_it_is_ready(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, not_ready_seconds=1) as stage:
        await stage.start()
        name = await stage.add_node()
        await stage.report_node(name, ready=False)
        assert "does not answer" in (await wait_host(stage, "DRAIN")).reason
        await stage.report_node(name)
        await wait_host(stage, without=("DRAIN",))


async def test_a_node_that_is_not_ready_gets_no_pod(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, not_ready_seconds=3600) as stage:
        await stage.start()
        name = await stage.add_node()
        await stage.report_node(name, ready=False)
        await stage.create_pod()
        assert "is not ready" in await stage.wait_reason("p", "NodeNotReady")
        assert not (await stage.get_pod()).spec.node_name
        job = await stage.wait_job()
        await stage.report_node(name)
        await stage.wait_bound()
        assert (await stage.wait_job()).sluid == job.sluid


async def test_a_cordoned_node_gets_no_pod_even_if_its_job_runs_there(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    job = await stage.start_waiting_job_while_down("first", "second")
    await stage.cordon(stage.nodes[0])
    await stage.report_stopped("first")
    await stage.start()
    await stage.wait_state(job, "CANCELLED")  # the bridge gives the node back, because it is drained
    assert not (await stage.get_pod("second")).spec.node_name
    await stage.cordon(stage.nodes[0], False)
    await stage.wait_bound("second")


async def test_a_host_is_deleted_with_its_node(stage: BridgeStage) -> None:
    await stage.client.delete(NODES, Key("", stage.nodes[0]))
    await wait_host_deleted(stage)


async def test_a_host_with_jobs_is_deleted_only_when_they_have_ended(stage: BridgeStage) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"metadata": {"labels": {names.EXTERNAL_LABEL: None}}})
    await wait_host(stage, "DRAIN")
    await stage.settle()
    assert (await stage.slurm.job((await stage.wait_job()).job_id)).state.running
    await stage.report_phase("p", "Succeeded", 0)
    await wait_host_deleted(stage)


async def test_a_node_that_grew_is_registered_again(stage: BridgeStage) -> None:
    await stage.report_node(stage.nodes[0], amounts={"cpu": "8"})

    async def bigger() -> bool:
        return (await stage.slurm.node(stage.nodes[0])).cpus == 8

    await eventually(bigger, "the new size")
    await wait_host(stage, without=("DRAIN",))
    await stage.create_pod(requests={"cpu": "8"})
    await stage.wait_bound()


async def annotate_topology(stage: BridgeStage, spec: str | None) -> None:
    annotations = {names.TOPOLOGY_ANNOTATION: spec}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"metadata": {"annotations": annotations}})


async def test_the_topology_of_a_host_follows_the_annotation_of_its_node(stage: BridgeStage) -> None:
    for spec in ("default:leaf2", None, "default:leaf1"):
        await annotate_topology(stage, spec)

        async def there(spec: str | None = spec) -> bool:
            return (await stage.slurm.node(stage.nodes[0])).topology == (spec or "")

        await eventually(there, f"topology {spec} of the host")


async def test_an_unknown_topology_is_reported_and_does_not_block_a_cordon(stage: BridgeStage) -> None:
    await annotate_topology(stage, "nowhere:leaf1")
    await stage.wait_event(stage.nodes[0], "SlurmRefused")
    await stage.cordon(stage.nodes[0])
    await wait_host(stage, "DRAIN")


async def test_foreign_hosts_are_not_touched(stage: BridgeStage) -> None:
    name = f"{stage.name}-foreign"
    await stage.slurm.create_node(
        f"NodeName={name} NodeAddr=127.0.0.1 CPUs=1 RealMemory=100 State=EXTERNAL Topology=default:leaf1"
    )
    try:
        await stage.settle()
        host = await stage.slurm.node(name)
        assert host.comment == ""
        assert not host.state.draining
    finally:
        await stage.slurm.delete_nodes(name)


async def test_the_taint_can_be_switched_off(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, taint="None") as stage:
        await stage.start()
        name = await stage.add_node()
        await stage.create_pod()
        await stage.wait_bound()
        assert not [t for t in (await stage.get_node(name)).spec.taints if t.key == names.MANAGED_TAINT]


async def test_a_host_is_drained_while_a_pod_does_not_stop_after_its_job(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, stuck_pod_seconds=1) as stage:
        await stage.start()
        await stage.add_node()
        await stage.run_pod(terminationGracePeriodSeconds=1)
        job = await stage.wait_job()
        await stage.slurm.cancel(job.job_id)
        host = await wait_host(stage, "DRAIN")
        assert host.reason.startswith(f"{names.DRAIN_PREFIX} pod {stage.namespace}/p of job {job.job_id} has not ")
        await stage.create_pod("next")
        assert (await stage.wait_job("next")).state.pending
        await stage.report_stopped("p")
        await wait_host(stage, without=("DRAIN",))
        await stage.wait_bound("next")


async def test_a_job_that_waits_for_a_stuck_pod_gets_another_host(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, stuck_pod_seconds=3) as stage:
        await stage.start()
        await stage.add_node()
        await stage.run_pod(terminationGracePeriodSeconds=1)
        await stage.create_pod("next")
        waiting = await stage.wait_job("next")
        await stage.slurm.cancel((await stage.wait_job()).job_id)
        await stage.wait_reason("next", "NodeClearing")  # Slurm gave the host of the stuck pod away at once
        await wait_host(stage, "DRAIN")
        await stage.wait_state(waiting, "CANCELLED")
        second = await stage.add_node(2)
        assert (await stage.wait_bound("next")).spec.node_name == second


async def test_pods_that_stop_in_time_drain_no_external_host(stage: BridgeStage) -> None:
    await stage.run_pod()
    await stage.slurm.cancel((await stage.wait_job()).job_id)
    await stage.wait_evicted("p", "SlurmJobCancelled", final=True)
    await stage.settle()
    await wait_host(stage, without=("DRAIN",))


async def test_a_node_that_claims_the_host_of_another_gets_no_pods(stage: BridgeStage) -> None:
    owner = stage.nodes[0]
    thief = f"0-{stage.name}"  # before the owner in the order of names
    labels = {names.HOST_LABEL: owner, names.EXTERNAL_LABEL: ""}
    await stage.client.create(NODES, NODES.manifest(Key("", thief), metadata={"labels": labels}))
    stage.nodes.append(thief)
    await stage.report_node(thief)

    async def is_reported() -> bool:
        condition = find_condition((await stage.get_node(thief)).status.conditions, names.HOST_CONDITION)
        return condition is not None and condition.reason == "HostNameClaimed" and f"Node {owner} " in condition.message

    await eventually(is_reported, "the condition of the second node")
    await stage.wait_event(thief, "HostNameClaimed")
    await stage.crash()
    await stage.start()  # what the bridge remembers does not decide
    await stage.create_pod()
    assert (await stage.wait_bound()).spec.node_name == owner
    assert not [taint for taint in (await stage.get_node(thief)).spec.taints if taint.key == names.MANAGED_TAINT]


async def create_foreign_pod(stage: BridgeStage, name: str, node: str, labels: dict[str, str]) -> Key:
    """A pod of another scheduler on a node."""
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}
    key = Key(stage.namespace, name)
    await stage.client.create(PODS, PODS.manifest(key, metadata={"labels": labels}, spec=spec))
    return key


async def wait_node_reason(stage: BridgeStage, node: str, reason: str) -> str:
    """Wait until the condition of a node has this reason; returns its message."""

    async def message() -> str:
        condition = find_condition((await stage.get_node(node)).status.conditions, names.HOST_CONDITION)
        assert condition is not None
        assert condition.reason == reason, condition
        return condition.message

    return await eventually(message, f"reason {reason} on {node}")


async def test_a_node_with_a_worker_of_the_same_slurm_is_not_counted_twice(stage: BridgeStage) -> None:
    node = stage.nodes[0]
    labels = {"app.kubernetes.io/name": "slurmd", "nodeset.slinky.slurm.net/pod-hostname": "c1"}
    worker = await create_foreign_pod(stage, "worker", node, labels)
    assert f"{worker} (host c1)" in await wait_node_reason(stage, node, "WorkerOnNode")
    await wait_host_deleted(stage)
    await stage.client.delete(PODS, worker, grace=0)
    await wait_host(stage, "EXTERNAL", without=("DRAIN",))
    await wait_node_reason(stage, node, "Open")


async def test_a_worker_of_another_slurm_does_not_prevent_the_registration(stage: BridgeStage) -> None:
    labels = {"app.kubernetes.io/name": "slurmd", "nodeset.slinky.slurm.net/pod-hostname": "elsewhere-0"}
    await create_foreign_pod(stage, "worker", stage.nodes[0], labels)
    await stage.settle()
    await wait_host(stage, "EXTERNAL", without=("DRAIN",))


async def test_the_taint_never_takes_the_last_node_of_slurms_own_pods(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        nodes = [f"{stage.name}-{number}" for number in (1, 2, 3)]
        await create_foreign_pod(stage, "slurmctld", "elsewhere", {"app.kubernetes.io/name": "slurmctld"})
        await asyncio.gather(*(stage.add_node(number) for number in (1, 2, 3)))

        async def untainted() -> list[str]:
            found = [await stage.get_node(name) for name in nodes]
            managed = {node.metadata.name for node in found for t in node.spec.taints if t.key == names.MANAGED_TAINT}
            assert len(managed) == 2, managed
            return sorted({*nodes} - managed)

        (last,) = await eventually(untainted, "two tainted nodes")
        assert f"{stage.namespace}/slurmctld" in await wait_node_reason(stage, last, "OpenUntainted")
        await stage.settle()
        assert await untainted() == [last]


async def test_the_taint_never_evicts_slurms_own_pods(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        home, other = (f"{stage.name}-{number}" for number in (1, 2))
        slurmctld = await create_foreign_pod(stage, "slurmctld", home, {"app.kubernetes.io/name": "slurmctld"})

        async def tainted(name: str) -> bool:
            taints = (await stage.get_node(name)).spec.taints
            return any(taint.key == names.MANAGED_TAINT for taint in taints)

        await asyncio.gather(*(stage.add_node(number) for number in (1, 2)))
        assert str(slurmctld) in await wait_node_reason(stage, home, "OpenUntainted")
        await eventually(lambda: tainted(other), "the taint of the other node")
        await stage.settle()
        assert not await tainted(home)
