# SPDX-License-Identifier: Apache-2.0
"""A viewer sees what slurmctld would show to the same user."""

import pytest
from tests.unit.web.sample_pages import private

from slinky.slurm.model.accounts import Coordinator, User
from slinky.web.page_data import PageData
from slinky.web.rendering import Renderer
from slinky.web.site import PageNotFound
from slinky.web.visibility import EVERYTHING, PRIVATE_KINDS, Viewer, private_kinds, restrict, visibility


def jobs_of(user: str, data: PageData, *, operator: bool = False) -> list[int]:
    seen = restrict(data, visibility(Viewer(user, operator), data))
    return [job.job_id for job in seen.snapshot.jobs]


@pytest.mark.parametrize(
    ("user", "operator", "kinds", "expected"),
    [
        ("alice", False, "", [1, 2, 3]),
        ("alice", False, "usage,users", [1, 2, 3]),
        ("alice", False, "jobs", [1]),
        ("stranger", False, "jobs", []),
        ("dora", False, "jobs", [1, 2, 3]),
        ("alice", True, "jobs", [1, 2, 3]),
    ],
)
def test_jobs(user: str, operator: bool, kinds: str, expected: list[int]) -> None:
    assert jobs_of(user, private(kinds), operator=operator) == expected


def test_a_coordinator_sees_the_jobs_of_the_account() -> None:
    coordinator = User(name="alice", coordinators=(Coordinator(name="ops", direct=True),))
    data = PageData(**{**vars(private("jobs")), "users": (coordinator,)})
    assert jobs_of("alice", data) == [1, 3]


def test_nodes_and_accounts_can_be_private() -> None:
    data = private("nodes,accounts")
    seen = restrict(data, visibility(Viewer("alice"), data)).snapshot
    assert seen.hosts == ()
    assert [(entry.account, entry.user) for entry in seen.associations] == [("lab", "alice")]
    assert len(seen.jobs) == 3


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, PRIVATE_KINDS),
        ({"PrivateData": ""}, frozenset()),
        ({"PrivateData": "none"}, frozenset()),
        ({"privatedata": None}, frozenset()),
        ({"PrivateData": ["jobs", "users"]}, {"jobs", "users"}),
        ({"PrivateData": "JOBS, usage,cloud"}, {"jobs", "usage"}),
        ({"PrivateData": "all"}, PRIVATE_KINDS),
    ],
)
def test_private_data_is_parsed_and_an_unknown_configuration_hides_everything(
    conf: dict[str, object], expected: frozenset[str]
) -> None:
    assert private_kinds(conf) == expected


def test_persons_who_see_everything_share_one_visibility() -> None:
    data = private("")
    assert visibility(Viewer("alice"), data) is visibility(Viewer("bob"), data) is EVERYTHING


def test_a_hidden_job_is_neither_shown_nor_named_but_counted_in_the_rank() -> None:
    data = private("jobs")
    sees = visibility(Viewer("carol"), data)
    renderer = Renderer()
    with pytest.raises(PageNotFound):
        renderer.page(data, sees, "/jobs/1")
    content = renderer.page(data, sees, "/jobs/3").content
    assert "position 3 of 3" in content
    assert "alice" not in content
    assert "bob" not in content
