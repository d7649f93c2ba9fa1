# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.errors import AuthError, Malformed, Rejected, SlurmctldUnreachable, SlurmError, SlurmNotFound
from slinky.slurm.model.responses import CancelResponse, JobsResponse, NodesResponse, RawNodes, Response, StatesResponse
from slinky.slurm.model.views import Host
from slinky.slurm.transport.decode import RawResponse, cancel_failures, decode_in_slices, parse_response, require

META = {"slurm": {"release": "26.05.5", "cluster": "lab"}}


def reply(code: int = 200, /, **content: Any) -> RawResponse:
    return RawResponse(code, "application/json", json.dumps({"meta": META, **content}).encode())


def trouble(number: int, text: str = "text") -> dict[str, Any]:
    return {"error_number": number, "error": text, "description": "", "source": "here"}


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (404, "text/plain", b"404 page not found"),
        (404, "text/html", b"<html>Not Found</html>"),
        (404, "application/json", b'{"message": "no route"}'),
        (200, "text/html", b"<html>Please log in</html>"),
        (200, "application/json", b"{}"),
        (200, "application/json", b'{"jobs": []}'),
        (200, "application/json", b'{"jobs": [], "meta"'),
        (200, "application/json", b"\xff\xfe"),
        (200, "application/json", b""),
        (200, "", b""),
        (302, "text/html", b""),
        (502, "text/html", b"bad gateway"),
        (200, "application/json", b'{"meta": {}, "jobs": [{"job_id": "x"}]}'),
        (200, "application/json", b"[" * 100_000),
    ],
)
def test_a_stranger_s_answer_is_never_an_absence(status: int, content_type: str, body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_response(RawResponse(status, content_type, body), JobsResponse)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (reply(404, errors=[trouble(2017)]), SlurmNotFound),
        (reply(200, errors=[trouble(2017)]), SlurmNotFound),
        (reply(511, errors=[trouble(1007)]), AuthError),
        (reply(511, errors=[trouble(0)]), AuthError),
        (reply(502, errors=[trouble(1800)]), SlurmctldUnreachable),
        (reply(503, errors=[]), SlurmctldUnreachable),
        (reply(500, errors=[]), Rejected),
        (reply(200, errors=[trouble(0, "strange")]), Rejected),
        (RawResponse(401, "text/plain", b"Authentication failure"), AuthError),
    ],
)
def test_an_error_is_read_whatever_the_status(answer: RawResponse, kind: type[SlurmError]) -> None:
    with pytest.raises(kind):
        parse_response(answer, JobsResponse)


def test_a_missing_list_is_not_an_empty_list() -> None:
    for content in ({}, {"nodes": None}):
        answer = parse_response(reply(**content), NodesResponse)
        with pytest.raises(Malformed):
            require(answer.nodes, "nodes")
    assert require(parse_response(reply(nodes=[]), NodesResponse).nodes, "nodes") == ()


def test_warnings_are_read() -> None:
    answer = parse_response(reply(warnings=[{"description": "Ignoring unknown field", "source": "#/job/x"}]), Response)
    assert [str(caution) for caution in answer.problems_from_warnings] == ["Ignoring unknown field (0) [#/job/x]"]


def test_a_cancel_that_failed_with_a_200_is_seen() -> None:
    refusals = [
        {"error": {"code": 2017, "string": "Invalid job id"}, "step_id": "7"},
        {"error": {"code": 0}, "step_id": "8"},
    ]
    refused = cancel_failures(parse_response(reply(status=refusals), CancelResponse))
    assert [(problem.number, problem.source) for problem in refused] == [(2017, "7")]


def test_unknown_fields_and_states_of_a_newer_slurm_are_no_obstacle() -> None:
    jobs = [{"job_id": "1", "state": ["RUNNING", "LEVITATING"], "mood": "good"}]
    (found,) = parse_response(reply(jobs=jobs, novelty=1), StatesResponse).jobs or ()
    assert found.state.running
    assert found.state.unknown == {"LEVITATING"}


async def test_a_long_list_is_decoded_whole() -> None:
    nodes = [{"name": f"n{index}", "state": ["IDLE"]} for index in range(1001)]
    raw = require(parse_response(reply(nodes=nodes), RawNodes).nodes, "nodes")
    found = await decode_in_slices(raw, Host)
    assert [node.name for node in found] == [node["name"] for node in nodes]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "jobs",
                    "meta",
                    "errors",
                    "warnings",
                    "job_id",
                    "state",
                    "slurm",
                    "last_update",
                    "error_number",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.integers(100, 599),
    st.sampled_from(["application/json", "text/plain", ""]),
    JSON | st.binary(max_size=80),
)
def test_any_bytes_become_an_answer_or_a_typed_error(status: int, content_type: str, content: Any) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        answer = parse_response(RawResponse(status, content_type, body), JobsResponse)
    except SlurmError:
        return
    assert status == 200
    assert answer.meta is not None
    assert not answer.errors
