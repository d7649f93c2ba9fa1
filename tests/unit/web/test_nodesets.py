# SPDX-License-Identifier: Apache-2.0
"""The page of the NodeSets: what it shows, to whom, and what it says if it cannot read them."""

import asyncio
import random
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.unit.insight import queues
from tests.unit.kube.objects import bookmark, event
from tests.unit.kube.scripted import Chunks, Scripted
from tests.unit.web.sample_pages import StrictReader, node_set, page_data, private, small_cluster

from slinky.api.fields.update_strategy import RollingUpdate, ScheduledUpdate, UpdateStrategy
from slinky.kube import Key, KubeClient
from slinky.kube.errors import Unreachable
from slinky.observe import ManualClock, SystemClock
from slinky.slurm import Mirror, SlurmClient
from slinky.web.cluster_feed import ClusterFeed
from slinky.web.nodeset_feed import NodeSetFeed
from slinky.web.page_data import KnownNodeSets, PageData
from slinky.web.pages.frame import PageContext
from slinky.web.rendering import Renderer
from slinky.web.settings import WebSettings, find_problem
from slinky.web.site import PageNotFound
from slinky.web.views.nodesets import health, nodesets_view, rollout
from slinky.web.visibility import EVERYTHING, UNSHOWN, Viewer, Visibility, names_only, visibility


def read(data: PageData, sees: Visibility = EVERYTHING, address: str = "/nodesets") -> str:
    page = Renderer().document(data, sees, address, PageContext("/nodesets"))
    return " ".join(StrictReader(page).text)


def known(*items: Any, **fields: Any) -> PageData:
    return page_data(queues.cluster(), node_sets=KnownNodeSets(items, **fields))


def test_the_page_shows_workers_rollout_and_autoscaling() -> None:
    text = read(small_cluster())
    assert "4 desired, 3 ready, 2 updated" in text
    assert "updating, 2 workers of an earlier revision" in text
    assert "Progressing: Starting" in text
    assert "gpu-1" in text
    assert "gpu-2" in text
    assert "4 now, 6 next: PendingJobs" in text
    assert "first of all job 2" in text
    assert "2026-11-18 01:00:00 UTC" in text
    assert "it requests 9 GPUs per node" in text


def test_a_job_that_no_worker_can_run_is_a_link() -> None:
    page = Renderer().document(small_cluster(), EVERYTHING, "/nodesets", PageContext("/nodesets"))
    assert ("a", {"href": "/jobs/3"}) in StrictReader(page).elements


def test_only_the_link_of_this_page_is_the_current_one() -> None:
    elements = StrictReader(Renderer().document(small_cluster(), EVERYTHING, "/nodesets", PageContext("/nodesets")))
    assert [names["href"] for _, names in elements.elements if "aria-current" in names] == ["/nodesets"]


def test_without_kubernetes_there_is_neither_page_nor_link() -> None:
    data = page_data(queues.cluster())
    with pytest.raises(PageNotFound, match="--nodesets"):
        read(data)
    assert "NodeSets" not in read(data, address="/")


def test_a_long_list_has_pages_and_few_entries_of_each_set() -> None:
    scaling = node_set().status.autoscaling
    assert scaling is not None
    long = structs.replace(scaling, decisions=scaling.decisions * 50, impossible_jobs=scaling.impossible_jobs * 50)
    items = tuple(node_set(name=f"set-{number:03}", autoscaling=long) for number in range(120))
    view = nodesets_view(KnownNodeSets(items), 0.0, {"page": "3"})
    assert (view.page.number, view.page.pages, len(view.page.items)) == (3, 3, 20)
    shown = view.page.items[0].scaling
    assert shown is not None
    assert len(shown.decisions) == len(shown.impossible) == 20
    assert "Page 3 of 3, 120 NodeSets" in read(known(*items), address="/nodesets?page=3")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"read": False}, "The NodeSets have not been read yet."),
        ({"read": False, "fault": "needs get <b>"}, "needs get <b>"),
        ({"fault": "may be old"}, "may be old"),
        ({"unreadable": ("odd",)}, "only in an earlier version: odd"),
        ({}, "No NodeSet belongs to this cluster."),
    ],
)
def test_what_cannot_be_read_is_said(fields: dict[str, Any], expected: str) -> None:
    assert expected in read(known(**fields))


@pytest.mark.parametrize(
    ("strategy", "status", "expected"),
    [
        (UpdateStrategy(), {"updated_replicas": 4}, "up to date"),
        (UpdateStrategy(rolling_update=RollingUpdate(paused=True)), {}, "paused, 2 workers of an earlier revision"),
        (
            UpdateStrategy(rolling_update=RollingUpdate(paused=True)),
            {"updated_replicas": 4},
            "up to date, updates are paused",
        ),
        (
            UpdateStrategy("OnDelete"),
            {"updated_replicas": 3},
            "1 worker of an earlier revision, until its pod is deleted",
        ),
        (
            UpdateStrategy("ScheduledUpdate", scheduled_update=ScheduledUpdate("2026-12-01T00:00:00Z")),
            {},
            "2 workers of an earlier revision, until the reservation at 2026-12-01T00:00:00Z",
        ),
        (UpdateStrategy(), {"observed_generation": -1}, "the operator has not seen the latest change yet"),
    ],
)
def test_the_rollout_in_words(strategy: UpdateStrategy, status: dict[str, Any], expected: str) -> None:
    item = node_set(**status)
    assert rollout(structs.replace(item, spec=structs.replace(item.spec, update_strategy=strategy))) == expected


def test_the_health_in_words() -> None:
    item = node_set()
    degraded = structs.replace(item.status.conditions[2], status="True", reason="UpdateHalted")
    assert health(item) == "Progressing: Starting"
    assert health(node_set(conditions=(*item.status.conditions[:2], degraded))) == "Degraded: UpdateHalted"
    assert health(node_set(conditions=item.status.conditions[:1])) == "Not ready: Starting"
    assert health(node_set(conditions=())) == "Not known yet"
    leaving = structs.replace(item.metadata, deletion_timestamp="2026-11-18T01:00:00Z")
    assert health(structs.replace(item, metadata=leaving)) == "Being deleted"


def test_a_set_without_autoscaling_or_without_a_decision() -> None:
    item = node_set()
    assert "off" in read(known(structs.replace(item, spec=structs.replace(item.spec, autoscaling=None))))
    assert "There is no decision yet." in read(known(node_set(autoscaling=None)))


# --- who may see what


@pytest.mark.parametrize(
    ("kinds", "user", "sees_two", "sees_three"),
    [
        ("", "alice", True, True),
        ("nodes", "alice", True, True),
        ("jobs", "alice", False, False),
        ("jobs", "bob", True, False),
        ("jobs", "carol", False, True),
        ("jobs", "dora", True, True),
    ],
)
def test_a_sentence_that_names_a_job_follows_private_data(
    kinds: str, user: str, sees_two: bool, sees_three: bool
) -> None:
    data = private(kinds, node_sets=KnownNodeSets((node_set(),)))
    text = read(data, visibility(Viewer(user), data))
    assert ("first of all job 2" in text) is sees_two
    assert (UNSHOWN in text) is not sees_two
    assert ("it requests 9 GPUs" in text) is sees_three
    assert "4 now, 6 next: PendingJobs" in text


def test_an_impossible_job_without_a_number_is_not_shown_if_jobs_are_private() -> None:
    scaling = node_set().status.autoscaling
    assert scaling is not None
    odd = structs.replace(scaling, impossible_jobs=("something about a job", "see Job 1"))
    data = private("jobs", node_sets=KnownNodeSets((node_set(autoscaling=odd),)))
    text = read(data, visibility(Viewer("alice"), data))
    assert "something" not in text
    assert "see Job" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("pending jobs need 3 more workers", True),
        ("job 1 and Job 2", True),
        ("job 1 and job 3", False),
        ("JOB #7", False),
        ("job 01", False),
        ("job " + "9" * 5000, False),
        ("job \u0661", False),
    ],
)
def test_jobs_named_in_a_sentence(text: str, expected: bool) -> None:
    assert names_only(text, frozenset({"1", "2"})) is expected


# --- reading


def line(name: str, version: int, controller: str = "slurm", **status: Any) -> bytes:
    spec = {"controllerRef": {"name": controller}}
    return event("ADDED", name, version, spec=spec, status=status).replace(b'"ns"', b'"hpc"')


async def follow(*streams: Any, seconds: float = 60.0) -> tuple[KnownNodeSets, int, list[str]]:
    """What a feed knows after these streams, how often it told of a change, and the requests."""
    clock, transport = ManualClock(), Scripted([], list(streams))
    client = KubeClient(transport, clock=clock, rng=random.Random(1))  # noqa: S311
    feed, changes = NodeSetFeed(client, Key("hpc", "slurm")), [0]
    feed.listen(lambda: changes.append(1))
    task = asyncio.create_task(feed.run())
    await clock.advance(seconds)
    result = feed.known()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return result, len(changes) - 1, [path for _, path, _ in transport.sent]


def refusal(code: int, reason: str) -> Chunks:
    return Chunks([msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": "no"})], code)


async def test_the_feed_follows_the_sets_of_its_controller_in_its_namespace() -> None:
    chunks = [line("b", 2, desired=3), line("a", 1), line("x", 3, "other"), bookmark(4, end=True)]
    result, changes, paths = await follow(Chunks(chunks))
    assert [item.metadata.name for item in result.items] == ["a", "b"]
    assert result.items[1].status.desired == 3
    assert result.read
    assert changes
    assert all(path.startswith("/apis/slinky.slurm.net/v1beta1/namespaces/hpc/nodesets?") for path in paths)


async def test_a_missing_right_is_named() -> None:
    result, changes, _ = await follow(*[refusal(403, "Forbidden")] * 50)
    assert not result.read
    assert "get, list and watch on nodesets.slinky.slurm.net in the namespace hpc" in result.fault
    assert changes == 1


async def test_missing_definitions_are_named() -> None:
    result, _, _ = await follow(*[refusal(404, "NotFound")] * 50)
    assert "slurm-operator-crds" in result.fault


async def test_what_was_read_stays_while_kubernetes_cannot_be_reached() -> None:
    result, _, _ = await follow(Chunks([line("a", 1), bookmark(4, end=True)]), *[Unreachable("no route")] * 50)
    assert [item.metadata.name for item in result.items] == ["a"]
    assert "no route" in result.fault


async def test_a_fault_ends_with_the_next_answer() -> None:
    listed = Chunks([line("a", 1), bookmark(4, end=True)])
    result, changes, _ = await follow(refusal(403, "Forbidden"), listed, *[Chunks([])] * 5000, seconds=5.0)
    assert not result.fault
    assert changes >= 3


async def test_a_set_that_cannot_be_decoded_is_named() -> None:
    broken = line("a", 1).replace(b'"controllerRef"', b'"other"')
    result, _, _ = await follow(Chunks([broken, bookmark(4, end=True)]))
    assert result.unreadable == ("a",)
    assert result.items == ()


@pytest.mark.parametrize("text", ["slurm", "/", "a/", "/b", "a/b/c", "A/b", "../x/y", "a/b?c"])
def test_a_controller_is_named_with_its_namespace(text: str) -> None:
    settings = WebSettings(insecure_loopback=True, nodesets=text)
    assert "NAMESPACE/NAME" in find_problem(settings, "127.0.0.1")
    assert not find_problem(structs.replace(settings, nodesets="slurm/slurm"), "127.0.0.1")


async def test_the_sets_are_published_with_the_other_data() -> None:
    async with SlurmClient("http://127.0.0.1:9", "token") as client:
        feed = ClusterFeed(client, Mirror(client), SystemClock(), lambda: KnownNodeSets((node_set(name="cpu"),)))
        await feed.publish()
        assert feed.data is not None
        assert feed.data.node_sets == KnownNodeSets((node_set(name="cpu"),))
