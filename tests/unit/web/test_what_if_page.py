# SPDX-License-Identifier: Apache-2.0
"""The page of a change: its form, its answer, and what it refuses."""

import pytest
from tests.unit.insight import queues
from tests.unit.web.sample_pages import HOSTILE, StrictReader, page_data, private

from slinky.web.live import LivePages
from slinky.web.page_data import PageData
from slinky.web.site import render_page
from slinky.web.views.what_if import JOBS_MAX, what_if_view
from slinky.web.visibility import Viewer, restrict, visibility

QUEUE = page_data(
    queues.cluster(
        queues.running(1, "n1", nodes=1, cpus=16, minutes=120),
        queues.job(2, cpus=16),
        queues.job(3, cpus=16, user_name="bob"),
        hosts=1,
    )
)


def text(data: PageData, address: str) -> str:
    return "".join(StrictReader(render_page(data, address).content).text)


def test_more_nodes_let_jobs_start_earlier() -> None:
    view = what_if_view(QUEUE, {"add": "work", "count": "1"})
    assert [(row.label, row.before, row.after) for row in view.earlier] == [
        ("2", "in 1 h 50 min", "now"),
        ("3", "in 2 h 50 min", "in 1 h"),
    ]
    assert view.notes == ("Added 1 node like n1.",)
    assert "2 jobs earlier, 0 later, 0 unchanged." in text(QUEUE, "/whatif?add=work")


def test_a_drained_node_lets_no_job_start() -> None:
    view = what_if_view(QUEUE, {"drain": "n1"})
    assert [(row.label, row.after) for row in view.later] == [("2", "not known"), ("3", "not known")]


def test_a_job_with_another_time_limit() -> None:
    assert what_if_view(QUEUE, {"job": "2", "limit": "30"}).earlier[0].label == "3"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"add": "gpu"}, "gpu is no node, feature or partition"),
        ({"add": "work", "count": "many"}, "many is not a number of nodes"),
        ({"add": "work", "count": "999999"}, "is not a number of nodes between 1 and"),
        ({"drain": "n[1-999999999]"}, "there is no node"),
        ({"drain": HOSTILE}, "there is no node"),
        ({"job": "9", "limit": "5"}, "there is no job 9 that you may see"),
        ({"job": "x", "limit": "5"}, "x is not the id of a job"),
        ({"job": "2"}, "name another QOS"),
        ({"qos": "high"}, "name the job"),
        ({"job": "2", "qos": "gold"}, "there is no QOS gold"),
        ({"job": "1", "limit": "5"}, "job 1 is not pending"),
    ],
)
def test_a_change_that_makes_no_sense_says_why(query: dict[str, str], problem: str) -> None:
    assert problem in what_if_view(QUEUE, query).problem


def test_a_large_queue_is_left_to_the_command() -> None:
    data = page_data(queues.cluster(*(queues.job(number) for number in range(1, JOBS_MAX + 2))), ranges={})
    assert "slinky whatif" in what_if_view(data, {"drain": "n1"}).problem


def test_jobs_that_a_viewer_may_not_see_are_not_shown() -> None:
    data = private("jobs")
    seen = restrict(data, visibility(Viewer("alice"), data))
    shown = what_if_view(seen, {"drain": "n[1-4]"})
    assert {row.label for row in shown.later} == {"1"}
    hidden = private("nodes")
    assert "hides" in what_if_view(restrict(hidden, visibility(Viewer("alice"), hidden)), {"drain": "n1"}).problem


async def test_an_open_page_of_a_change_is_not_computed_again() -> None:
    rendered: list[str] = []

    def render(_: PageData, __: object, address: str) -> bytes:
        rendered.append(address)
        return b""

    pages = LivePages(render)
    with pages.opened(Viewer("alice", operator=True), "/whatif?drain=n1"), pages.opened(Viewer("alice"), "/queue"):
        await pages.publish(QUEUE)
    assert rendered == ["/queue"]
