# SPDX-License-Identifier: Apache-2.0
"""Selectors are evaluated beside the event loop, within limits, and once."""

import asyncio
import threading

import msgspec
import pytest
from tests.support.waiting import eventually
from tests.unit.bridge.build import GPU_DRIVER, gpus, needing, pod
from tests.unit.bridge.device_cluster import DeviceCluster

from slinky.bridge.devices import selection
from slinky.bridge.devices.inventory import DeviceInventory, GresKind, build_inventory
from slinky.bridge.state.selector_evaluator import SelectorEvaluator
from slinky.bridge.views import DeviceClass
from slinky.bridge.workload.annotations import OptionError

MANY = ", ".join(["1"] * 200)
#: About 480,000 for one device: below the limit of Kubernetes, above that of the usual selectors.
EXPENSIVE = f"cel.bind(a, [{MANY}], a.all(x, a.all(y, a.exists(z, x == y))))"
TOO_EXPENSIVE = f"cel.bind(a, [{MANY}], a.all(x, a.all(y, a.all(z, x == y))))"
CHEAP = 'device.attributes["gpu.example.com"].index >= 0'


def build_inventories(count: int, per_node: int = 8) -> list[DeviceInventory]:
    return [build_inventory([gpus(per_node, node=f"n{number}")], [GPU_DRIVER]) for number in range(count)]


async def test_the_event_loop_runs_while_an_expensive_selector_is_evaluated() -> None:
    inventories = build_inventories(1, per_node=2)
    evaluator = SelectorEvaluator(lambda: inventories)
    expensive = asyncio.create_task(evaluator.evaluate([(EXPENSIVE,)]))
    turns = 0
    while not expensive.done():
        await asyncio.sleep(0)
        turns += 1
    await expensive
    assert inventories[0].count_selected((EXPENSIVE,)) == {GresKind("gpu", GPU_DRIVER): 2}
    assert turns > 10


async def test_a_usual_selector_does_not_wait_for_an_expensive_one() -> None:
    inventories = build_inventories(4)
    evaluator = SelectorEvaluator(lambda: inventories)
    expensive = asyncio.create_task(evaluator.evaluate([(EXPENSIVE,)]))
    await eventually(_is_expensive_thread_running, "the thread of expensive selectors")
    await evaluator.evaluate([(CHEAP,)])
    assert not expensive.done()
    await expensive


async def _is_expensive_thread_running() -> bool:
    return any(thread.name.startswith("expensive") for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("expression", "nodes", "message"),
    [
        (TOO_EXPENSIVE, 3, "for one device costs more than 1,000,000"),
        (EXPENSIVE, 4, "for all 32 devices costs more than 5,032,000"),
        ("device.driver.matches('a+')", 3, "the function matches is not supported"),
    ],
)
async def test_a_selector_beyond_the_limits_is_refused_on_the_pod(expression: str, nodes: int, message: str) -> None:
    cluster = DeviceCluster()
    cluster.add_class("gpu", expression, f'device.driver == "{GPU_DRIVER}"', resource="example.com/gpu")
    for number in range(nodes):
        cluster.publish(gpus(8, node=f"n{number}"))
    with pytest.raises(OptionError, match=message):
        await cluster.demand.compute([needing({"example.com/gpu": "1"})])


async def test_results_are_reused_until_the_devices_of_a_node_change(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []
    steps = selection.evaluation_steps

    def record(inventories: list[DeviceInventory], *arguments: object) -> object:
        evaluated.append(len(inventories))
        return steps(inventories, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(selection, "evaluation_steps", record)
    inventories = build_inventories(3)
    evaluator = SelectorEvaluator(lambda: inventories)
    await asyncio.gather(*(evaluator.evaluate([(CHEAP,), (CHEAP, "true")]) for _ in range(5)))
    assert evaluated == [3, 3]
    inventories[1] = build_inventories(2)[1]
    await evaluator.evaluate([(CHEAP,)])
    assert evaluated == [3, 3, 1]


async def test_alternatives_are_evaluated_before_one_is_chosen() -> None:
    cluster = DeviceCluster()
    cluster.add_class("gpu", f'device.driver == "{GPU_DRIVER}"')
    cluster.publish(gpus(2))
    cluster.hosts["n1"] = None  # type: ignore[assignment]
    options = [
        {"name": f"o{index}", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": text}}]}
        for index, text in enumerate([f"{CHEAP} && false", CHEAP])
    ]
    cluster.add_claim("mine", {"name": "r", "firstAvailable": options})
    needs = await cluster.demand.compute([pod(spec={"resourceClaims": [{"name": "g", "resourceClaimName": "mine"}]})])
    assert needs.by_pod == {"uid-p": {GresKind("gpu", GPU_DRIVER): 1}}


@pytest.mark.parametrize("name", ["all", "absent"])
async def test_a_class_without_selectors_or_that_does_not_exist_is_answered(name: str) -> None:
    cluster = DeviceCluster()
    cluster.add_class(GPU_DRIVER)
    empty = msgspec.convert({"metadata": {"name": "all"}}, DeviceClass)
    cluster.devices.classes.put(empty)
    cluster.publish(gpus(2))
    cluster.add_claim("mine", {"name": "r", "exactly": {"deviceClassName": name}})
    claiming = pod(spec={"resourceClaims": [{"name": "g", "resourceClaimName": "mine"}]})
    if name == "absent":
        with pytest.raises(OptionError, match="device class absent does not exist"):
            await cluster.demand.compute([claiming])
    else:
        needs = await cluster.demand.compute([claiming])
        assert needs.by_pod == {"uid-p": {GresKind("gpu", GPU_DRIVER): 1}}


async def test_devices_that_change_during_an_evaluation_are_evaluated_too() -> None:
    cluster = DeviceCluster()
    for number, expression in enumerate([CHEAP, f"{CHEAP} && {EXPENSIVE}"]):
        cluster.add_class(f"gpu{number}", expression, resource=f"example.com/gpu{number}")
    cluster.add_class(GPU_DRIVER)
    cluster.publish(gpus(2))
    amounts = {"example.com/gpu0": "1", "example.com/gpu1": "1"}
    computed = asyncio.create_task(cluster.demand.compute([needing(amounts)]))
    await asyncio.sleep(0)
    generation = 1
    while not computed.done() and generation < 5:
        generation += 1
        await asyncio.wait([computed], timeout=0.1)
        cluster.publish(gpus(2, generation=generation))
    assert (await computed).by_pod == {"uid-p": {GresKind("gpu", GPU_DRIVER): 2}}
