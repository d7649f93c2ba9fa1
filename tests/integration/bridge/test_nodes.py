# SPDX-License-Identifier: Apache-2.0
"""Nodes on both sides."""

import asyncio

import msgspec
from tests.integration.bridge.scene import Scene, eventually, scene

from slinky.bridge import names
from slinky.kube import EVENTS, NODES, Key, KubeClient
from slinky.kube.conditions import find_condition
from slinky.slurm import Host, NodeUpdate
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmNotFound as NoHost
from slinky.slurm.mirror.polling import Source, Urgency


async def host(stage: Scene, *flags: str, without: tuple[str, ...] = ()) -> Host:
    async def there() -> Host | None:
        found = await stage.slurm.node(stage.nodes[0])
        ok = all(flag in found.state for flag in flags) and not any(flag in found.state for flag in without)
        return found if ok else None

    found: Host = await eventually(there, f"the host with {flags} and without {without}")
    return found


async def removed(stage: Scene) -> None:
    async def gone() -> bool:
        try:
            await stage.slurm.node(stage.nodes[0])
        except NoHost:
            return True
        return False

    await eventually(gone, "the end of the host")


async def cordon(stage: Scene, value: bool) -> None:
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"spec": {"unschedulable": value}})


async def test_a_labelled_node_becomes_an_external_host_of_its_size(stage: Scene) -> None:
    found = await host(stage, "EXTERNAL")
    assert (found.cpus, found.real_memory, found.features) == (4, 8192, ("ext",))
    assert found.address == "127.0.0.1"

    async def tainted() -> bool:
        taints = (await stage.get_node(stage.nodes[0])).spec.taints
        return any(t.key == names.MANAGED_TAINT and t.effect == "NoExecute" for t in taints)

    await eventually(tainted, "the taint")


async def test_a_cordon_drains_and_its_end_undrains(stage: Scene) -> None:
    await cordon(stage, True)
    assert (await host(stage, "DRAIN")).reason.startswith(names.DRAIN_PREFIX)
    await cordon(stage, False)
    await host(stage, without=("DRAIN",))


async def test_a_cordon_does_not_wait_for_the_next_list_of_hosts(stage: Scene) -> None:
    await host(stage, "EXTERNAL")
    assert stage.bridge is not None
    mirror = stage.bridge.mirror
    # As with a thousand hosts while jobs come and go: the list is put off, and what is known of hosts grows old.
    long = dict.fromkeys(("active_after_change", "nodes_delay", "idle_nodes"), 600.0)
    mirror._intervals = msgspec.structs.replace(mirror._intervals, expensive_nodes=0.0, **long)
    await asyncio.sleep(3)  # the host is new, and looked at once more
    mirror.request_refresh()
    mirror._poll[Source.NODES].request(Urgency.SOON)
    mirror.nodes._confirmed_at = float("-inf")
    await cordon(stage, True)
    await host(stage, "DRAIN")


async def test_a_crowd_of_nodes_is_registered_drained_and_opened_whole(stage: Scene) -> None:
    await asyncio.gather(*(stage.node(number) for number in range(2, 22)))

    async def all_are(draining: bool) -> bool:
        listing = await stage.slurm.nodes()
        ours = [found for found in (listing.items if listing else ()) if found.name in stage.nodes]
        assert {found.address for found in ours} == {"127.0.0.1"}
        return len(ours) == len(stage.nodes) and all(found.state.draining is draining for found in ours)

    for closed in (True, False):
        spec = {"spec": {"unschedulable": closed}}
        await asyncio.gather(*(stage.client.patch(NODES, Key("", name), spec) for name in stage.nodes))
        await eventually(lambda closed=closed: all_are(closed), f"every host to have draining {closed}")  # type: ignore[misc]


async def test_somebody_elses_drain_stays_and_shows_on_the_node(stage: Scene) -> None:
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DRAIN",), reason="disk broken"))

    async def told() -> bool:
        condition = find_condition((await stage.get_node(stage.nodes[0])).status.conditions, names.HOST_CONDITION)
        return condition is not None and condition.status == "False" and "disk broken" in condition.message

    await eventually(told, "the condition")
    await cordon(stage, True)
    await cordon(stage, False)
    await asyncio.sleep(1)
    assert (await host(stage, "DRAIN")).reason == "disk broken"


async def test_a_silent_node_is_drained_and_opened_again(kube: KubeClient, ctld: Slurm) -> None:
    async with scene(kube, ctld, not_ready_seconds=1) as stage:
        await stage.start()
        name = await stage.node()
        await stage.ready(name, ready=False)
        assert "does not answer" in (await host(stage, "DRAIN")).reason
        await stage.ready(name)
        await host(stage, without=("DRAIN",))


async def test_a_silent_node_gets_no_pod_until_it_answers(kube: KubeClient, ctld: Slurm) -> None:
    async with scene(kube, ctld, not_ready_seconds=3600) as stage:
        await stage.start()
        name = await stage.node()
        await stage.ready(name, ready=False)
        await stage.pod()
        assert "is not ready" in await stage.says("p", "NodeNotReady")
        assert not (await stage.get()).spec.node_name
        job = await stage.job_of()
        await stage.ready(name)
        await stage.bound()
        assert (await stage.job_of()).sluid == job.sluid


async def test_a_cordoned_node_gets_no_pod_of_a_job_that_had_it(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    job = await stage.overtaken("first", "second")
    await cordon(stage, True)
    await stage.stopped("first")
    await stage.start()
    await stage.state(job, "CANCELLED")  # given back, since the node is drained now
    assert not (await stage.get("second")).spec.node_name
    await cordon(stage, False)
    await stage.bound("second", 90)


async def test_a_host_leaves_with_its_node(stage: Scene) -> None:
    await stage.client.delete(NODES, Key("", stage.nodes[0]))
    await removed(stage)


async def test_a_host_with_work_leaves_only_when_the_work_is_done(stage: Scene) -> None:
    await stage.pod()
    await stage.bound()
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"metadata": {"labels": {names.EXTERNAL_LABEL: None}}})
    await host(stage, "DRAIN")
    await asyncio.sleep(1)
    assert (await stage.slurm.job((await stage.job_of()).job_id)).state.running
    await stage.phase("p", "Succeeded", 0)
    await removed(stage)


async def test_a_node_that_grew_is_registered_anew(stage: Scene) -> None:
    await stage.ready(stage.nodes[0], amounts={"cpu": "8"})

    async def bigger() -> bool:
        return (await stage.slurm.node(stage.nodes[0])).cpus == 8

    await eventually(bigger, "the new size")
    await host(stage, without=("DRAIN",))
    await stage.pod(requests={"cpu": "8"})
    await stage.bound()


async def placed(stage: Scene, spec: str | None) -> None:
    notes = {names.TOPOLOGY_ANNOTATION: spec}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"metadata": {"annotations": notes}})


async def test_the_place_of_a_host_follows_its_annotation_and_is_cleared_with_it(stage: Scene) -> None:
    for spec in ("default:leaf2", None, "default:leaf1"):
        await placed(stage, spec)

        async def there(spec: str | None = spec) -> bool:
            return (await stage.slurm.node(stage.nodes[0])).topology == (spec or "")

        await eventually(there, f"the host to be at {spec}")


async def test_a_place_that_slurm_does_not_know_is_told_and_keeps_no_cordon_from_counting(stage: Scene) -> None:
    await placed(stage, "nowhere:leaf1")

    async def told() -> bool:
        field = f"involvedObject.name={stage.nodes[0]},reason=SlurmRefused"
        return bool(await stage.client.list(EVENTS, fields=field))

    await eventually(told, "an event on the node")
    await cordon(stage, True)
    await host(stage, "DRAIN")


async def test_hosts_of_others_are_left_alone(stage: Scene) -> None:
    name = f"{stage.name}-foreign"
    await stage.slurm.create_node(
        f"NodeName={name} NodeAddr=127.0.0.1 CPUs=1 RealMemory=100 State=EXTERNAL Topology=default:leaf1"
    )
    try:
        await asyncio.sleep(3)
        found = await stage.slurm.node(name)
        assert found.comment == ""
        assert not found.state.draining
    finally:
        await stage.slurm.delete_nodes(name)


async def test_the_taint_can_be_switched_off(kube: KubeClient, ctld: Slurm) -> None:
    async with scene(kube, ctld, taint="None") as stage:
        await stage.start()
        name = await stage.node()
        await stage.pod()
        await stage.bound()
        assert not [t for t in (await stage.get_node(name)).spec.taints if t.key == names.MANAGED_TAINT]
