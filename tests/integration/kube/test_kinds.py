# SPDX-License-Identifier: Apache-2.0
"""Generated definitions, quantities, leases, events and discovery on a real API server."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta as Bounds
from tests.integration.kube.objects import pod
from tests.integration.kube.test_faults import establish
from tests.support.waiting import eventually

from slinky.kube import (
    LEASES,
    PODS,
    Condition,
    Discovery,
    Election,
    EventRecorder,
    Invalid,
    Key,
    KubeClient,
    LeaseTiming,
    Object,
    Resource,
    Unstructured,
    View,
    discover,
    restart_on_new_kinds,
)
from slinky.kube.conditions import condition_manifests, with_condition
from slinky.kube.quantity import Quantity, canonical
from slinky.kube.schema import AGE, Column, ScaleSubresource, definition, free_form, immutable, list_map, list_set, rule
from slinky.observe import RestartRequired, SystemClock

pytestmark = pytest.mark.plane


class Ref(View, frozen=True):
    """Names another object."""

    name: Annotated[str, Bounds(min_length=1, max_length=253)]
    key: str = "default-key"


class SetSpec(View, frozen=True):
    """The desired state."""

    __rules__ = (rule("self.mode != 'Daemon' || self.replicas == 1", "a Daemon has one replica"),)

    ref: Annotated[Ref, immutable("ref")]
    replicas: Annotated[int, Bounds(ge=0, le=1000, description="How many.")] = 1
    mode: Literal["Stateful", "Daemon"] = "Stateful"
    max_unavailable: int | str = "25%"
    names: Annotated[tuple[Annotated[str, Bounds(max_length=63)], ...], Bounds(max_length=8), list_set()] = ()
    refs: Annotated[tuple[Ref, ...], Bounds(max_length=8), list_map("name")] = ()
    container: Annotated[dict[str, Any], free_form()] = msgspec.field(default_factory=dict)
    enabled: bool = True


class SetStatus(View, frozen=True):
    """The observed state."""

    replicas: int = 0
    selector: str = ""
    conditions: Annotated[tuple[Condition, ...], list_map("type")] = ()


class Set(Object, frozen=True):
    spec: SetSpec
    status: SetStatus = SetStatus()


SETS = Resource("test.slinky.dev/v1", "Set", "sets", Set)
DEFINITION = definition(
    "test.slinky.dev",
    "v1",
    "Set",
    "sets",
    spec=SetSpec,
    status=SetStatus,
    columns=[
        Column("REPLICAS", "integer", ".status.replicas"),
        Column("MODE", "string", ".spec.mode", wide=True),
        AGE,
    ],
    scale=ScaleSubresource(),
    short_names=["st8"],
    categories=["slinky"],
)


def a_set(namespace: str, **spec: Any) -> dict[str, Any]:
    return SETS.manifest(Key(namespace, "a"), spec={"ref": {"name": "x"}, **spec})


@pytest.fixture(scope="module")
async def sets(client: KubeClient) -> Resource[Set]:
    await establish(client, DEFINITION, SETS)
    return SETS


async def test_the_server_fills_in_our_defaults(client: KubeClient, namespace: str, sets: Resource[Set]) -> None:
    created = await client.create(sets, a_set(namespace, container={"any": {"thing": [1, "two"]}}))
    assert created.spec == SetSpec(Ref("x"), container={"any": {"thing": [1, "two"]}})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicas": -1}, "greater than or equal to 0"),
        ({"mode": "Other"}, "Unsupported value"),
        ({"mode": "Daemon", "replicas": 2}, "a Daemon has one replica"),
        ({"ref": {"name": ""}}, "at least 1 char"),
        ({"names": ["a", "a"]}, "Duplicate value"),
        ({"refs": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
        ({"maxUnavailable": [1]}, "must be of type"),
    ],
)
async def test_the_server_enforces_our_rules(
    client: KubeClient, namespace: str, sets: Resource[Set], spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        await client.create(sets, a_set(namespace, **spec))


async def test_an_immutable_field_cannot_be_changed(client: KubeClient, namespace: str, sets: Resource[Set]) -> None:
    created = await client.create(sets, a_set(namespace))
    with pytest.raises(Invalid, match="ref is immutable"):
        await client.patch(sets, created.key, {"spec": {"ref": {"name": "y"}}})


async def test_status_and_scale_work_on_our_kind(client: KubeClient, namespace: str, sets: Resource[Set]) -> None:
    created = await client.create(sets, a_set(namespace))
    now = datetime.now(UTC)
    ready = with_condition((), "Ready", True, "AllUp", "all is well", generation=created.metadata.generation, now=now)
    status = {"replicas": 1, "selector": "a=b", "conditions": condition_manifests(ready)}
    written = await client.apply_status(sets, created.key, status)
    assert written.status == SetStatus(1, "a=b", ready)
    again = await client.apply_status(sets, created.key, status)
    assert again.metadata.resource_version == written.metadata.resource_version
    scale = await client.set_scale(sets, created.key, 4)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (4, 1, "a=b")


async def test_two_appliers_share_a_list_by_its_keys(client: KubeClient, namespace: str, sets: Resource[Set]) -> None:
    await client.apply(sets, a_set(namespace, refs=[{"name": "one"}]), manager="one")
    other = SETS.manifest(Key(namespace, "a"), spec={"ref": {"name": "x"}, "refs": [{"name": "two"}]})
    both = await client.apply(sets, other, manager="two", force=False)
    assert {ref.name for ref in both.spec.refs} == {"one", "two"}


async def test_kubectl_would_show_our_columns(client: KubeClient, namespace: str, sets: Resource[Set]) -> None:
    await client.create(sets, a_set(namespace))
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    shown = msgspec.json.decode(await client.send("GET", sets.path(namespace=namespace), accept=table))
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "REPLICAS", "MODE", "AGE"]


async def test_the_server_is_asked_what_it_serves(client: KubeClient, sets: Resource[Set]) -> None:
    found = await discover(client)
    assert found.versions("apps", "Deployment") == ["v1"]
    served = found.find("test.slinky.dev", "Set")
    assert served is not None
    assert (served.api_version, served.plural, set(served.subresources)) == (
        "test.slinky.dev/v1",
        "sets",
        {"status", "scale"},
    )
    assert found.find("", "Pod", "v2") is None


async def test_a_kind_that_is_installed_later_is_discovered(client: KubeClient, namespace: str) -> None:
    group = f"{namespace}.slinky.dev"
    later = definition(group, "v1", "Late", "lates", spec=SetSpec, status=SetStatus)
    looks = 0

    def new_kinds(served: Discovery) -> str:
        nonlocal looks
        looks += 1
        return "Late" if served.find(group, "Late") else ""

    watching = asyncio.ensure_future(restart_on_new_kinds(client, new_kinds, interval=0.05))
    await eventually(lambda: looks > 2, "three reads of discovery")
    assert not watching.done()
    await establish(client, later, Resource(f"{group}/v1", "Late", "lates", Object))
    async with asyncio.timeout(30):
        with pytest.raises(RestartRequired, match="Late"):
            await watching


async def test_quantities_are_written_as_the_server_writes_them(client: KubeClient, namespace: str) -> None:
    dice = random.Random(5)  # noqa: S311
    units = [
        "",
        "n",
        "u",
        "m",
        "k",
        "M",
        "G",
        "T",
        "P",
        "E",
        "Ki",
        "Mi",
        "Gi",
        "Ti",
        "Pi",
        "Ei",
        "e3",
        "E-3",
        "e0",
        "e12",
    ]
    numbers = [
        "0",
        "1",
        "1.5",
        "0.1",
        ".25",
        "1000",
        "1024",
        "1536",
        "0.0001",
        "123456789.123456789",
        "+7",
        "5.",
    ]
    texts = [f"{dice.choice(numbers)}{dice.choice(units)}" for _ in range(150)]
    texts += [f"{dice.randrange(10**12)}{unit}" for unit in units]
    # Beyond 2^63 the server has no suffix left and prints 1000E as 1.
    texts = [text for text in texts if Quantity.parse(text) < Quantity.of(2**63 - 1)]
    volumes = [{"name": f"v{i}", "emptyDir": {"sizeLimit": text}} for i, text in enumerate(texts)]
    view = PODS.viewed_as(Unstructured)
    created = await client.create(view, pod(namespace, "a", volumes=volumes), dry_run=True)
    stored = [volume["emptyDir"]["sizeLimit"] for volume in created.spec["volumes"]]
    for text, kept in zip(texts, stored, strict=False):
        # The server keeps some texts as they came; those that it rewrote, it rewrote as we do.
        assert kept in (text, canonical(text))
        assert Quantity.parse(kept) == Quantity.parse(text)
    assert sum(kept != text for text, kept in zip(texts, stored, strict=False)) > 30


class JumpingClock(SystemClock):
    """A wall clock that jumps by days."""

    def __init__(self) -> None:
        super().__init__()
        self._dice = random.Random(2)  # noqa: S311

    def now(self) -> datetime:
        return super().now() + timedelta(days=self._dice.randrange(-9, 9))


async def test_two_candidates_with_wrong_clocks_elect_one_leader(client: KubeClient, namespace: str) -> None:
    timing = LeaseTiming(duration=3.0, give_up=2.0, interval=0.2)
    lease, leading, turns = Key(namespace, "lease"), set[str](), list[str]()

    async def candidate(name: str) -> None:
        candidate_client = KubeClient(client.transport, clock=JumpingClock())

        async def work() -> None:
            leading.add(name)
            turns.append(name)
            assert len(leading) == 1
            try:
                await asyncio.Event().wait()
            finally:
                leading.discard(name)

        await Election(candidate_client, lease, name, timing=timing).lead(work)

    tasks = {name: asyncio.ensure_future(candidate(name)) for name in ("one", "two")}
    try:
        await eventually(lambda: bool(leading), "a leader")
        first = turns[0]
        assert (await client.get(LEASES, lease)).spec.holder_identity == first
        tasks[first].cancel()
        await eventually(lambda: len(turns) == 2, "the second leader")
        assert turns[1] != first
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def test_events_are_written_and_counted_up(client: KubeClient, namespace: str) -> None:
    created = await client.create(PODS, pod(namespace, "a"))
    recorder = EventRecorder(client, "test")
    for _ in range(2):
        recorder.record(PODS.reference(created), "Waiting", "Waiting for 3 jobs.", warning=True)
        await recorder.flush()
    events = Resource("v1", "Event", "events", CountedEvent)
    (found,) = await client.list(events, namespace=namespace, fields=f"involvedObject.uid={created.metadata.uid}")
    assert (found.count, found.type, found.reason) == (2, "Warning", "Waiting")


class CountedEvent(Object, frozen=True):
    count: int = 0
    type: str = ""
    reason: str = ""
