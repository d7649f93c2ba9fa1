# SPDX-License-Identifier: Apache-2.0
"""Every page is well-formed and semantic, and no text of Slurm breaks it."""

from itertools import pairwise

import pytest
from tests.unit.insight import queues
from tests.unit.web.sample_pages import ADDRESSES, HOSTILE, StrictReader, page_data, pods_comment, small_cluster

from slinky.web.page_data import PageData
from slinky.web.pages.frame import PageContext
from slinky.web.rendering import Renderer
from slinky.web.site import PageNotFound
from slinky.web.visibility import EVERYTHING


def show(data: PageData, address: str) -> str:
    return Renderer().document(data, EVERYTHING, address, PageContext(address.partition("?")[0]))


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_is_well_formed_and_semantic(address: str) -> None:
    reader = StrictReader(show(small_cluster(), address))
    assert reader.count("h1") == reader.count("main") == 1
    assert reader.count("caption") == reader.count("table")
    assert all("scope" in attributes for name, attributes in reader.elements if name == "th")
    assert all(attributes.get("aria-label") for name, attributes in reader.elements if name == "svg")
    labels = {attributes["for"] for name, attributes in reader.elements if name == "label"}
    assert labels == {attributes["id"] for name, attributes in reader.elements if name in ("select", "input")}
    levels = [int(name[1]) for name, _ in reader.elements if name in ("h1", "h2", "h3")]
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("address", ADDRESSES)
def test_hostile_texts_stay_texts(address: str) -> None:
    page = show(small_cluster(HOSTILE), address)
    reader = StrictReader(page)
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert reader.count("script") == 1


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_text_of_a_megabyte_is_cut(address: str) -> None:
    assert len(show(small_cluster("<" * 2**20), address)) < 100_000


def test_a_job_page_explains_and_forecasts() -> None:
    text = "".join(StrictReader(show(small_cluster(), "/jobs/2")).text)
    assert "Job 2 (run-2) of alice is pending." in text
    assert "bad fan" in text
    assert "Expected start: " in text
    assert "position 1 of 1" in text


def test_the_nodes_page_names_owner_and_reason_of_a_drain() -> None:
    text = "".join(StrictReader(show(small_cluster(), "/nodes")).text)
    assert "n4, drained" in text
    assert "bad fan" in text
    assert "bob" in text


def test_a_job_of_the_bridge_shows_its_pods_and_not_the_comment_that_names_them() -> None:
    names = [f"default/train-{number}" for number in range(501)]
    data = page_data(queues.cluster(queues.running(1, "n1", admin_comment=pods_comment(*names))))
    page = StrictReader(show(data, "/jobs/1"))
    assert page.count("li") > 500
    assert "default/train-499And 1 more pods." in "".join(page.text)
    assert "Administrator" not in "".join(page.text)
    node = "".join(StrictReader(show(data, "/nodes/n1")).text)
    assert "default/train-0, default/train-1, default/train-2 and 498 more" in node


def test_a_slurm_that_cannot_be_reached_is_named_with_the_age_of_the_data() -> None:
    data = page_data(queues.cluster(), fault="connection refused", age=125.0)
    text = "".join(StrictReader(show(data, "/")).text)
    assert "Slurm cannot be reached. What follows is 2 min old. connection refused" in text


@pytest.mark.parametrize("address", ["/nothing", "/jobs/9", "/jobs/x", "/nodes/n11", "/queue/x", "/jobs/" + "9" * 5000])
def test_an_unknown_address_is_not_found(address: str) -> None:
    with pytest.raises(PageNotFound) as error:
        show(small_cluster(), address)
    assert len(str(error.value)) < 400
    if address == "/nodes/n11":
        assert "Did you mean" in str(error.value)


def test_long_lists_have_pages() -> None:
    data = page_data(queues.cluster(*(queues.job(number) for number in range(1, 251)), hosts=1200))
    queue = StrictReader(show(data, "/queue?page=3"))
    assert "Page 3 of 3, 250 jobs" in "".join(queue.text)
    assert queue.count("tr") == 51
    nodes = StrictReader(show(data, "/nodes?page=99"))
    assert "Page 3 of 3, 1200 nodes" in "".join(nodes.text)
    assert nodes.count("tr") == 201


@pytest.mark.parametrize("page", ["0", "-1", "x", "9" * 5000, "1_0", "٣"])
def test_a_page_number_that_is_none_is_the_first_page(page: str) -> None:
    assert "Page 1 of 1" in show(small_cluster(), f"/queue?page={page}")
