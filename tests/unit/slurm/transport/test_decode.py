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


def raw_response(code: int = 200, /, **content: Any) -> RawResponse:
    return RawResponse(code, "application/json", json.dumps({"meta": META, **content}).encode())


def error_entry(number: int, text: str = "text") -> dict[str, Any]:
    return {"error_number": number, "error": text, "description": "", "source": "here"}


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (404, "text/plain", b"404 page not decoded"),
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
def test_a_response_of_another_server_is_never_an_absence(status: int, content_type: str, body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_response(RawResponse(status, content_type, body), JobsResponse)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (raw_response(404, errors=[error_entry(2017)]), SlurmNotFound),
        (raw_response(200, errors=[error_entry(2017)]), SlurmNotFound),
        (raw_response(511, errors=[error_entry(1007)]), AuthError),
        (raw_response(511, errors=[error_entry(0)]), AuthError),
        (raw_response(502, errors=[error_entry(1800)]), SlurmctldUnreachable),
        (raw_response(503, errors=[]), SlurmctldUnreachable),
        (raw_response(500, errors=[]), Rejected),
        (raw_response(200, errors=[error_entry(0, "strange")]), Rejected),
        (RawResponse(401, "text/plain", b"Authentication failure"), AuthError),
    ],
)
def test_an_error_is_read_whatever_the_status(response: RawResponse, kind: type[SlurmError]) -> None:
    with pytest.raises(kind):
        parse_response(response, JobsResponse)


def test_a_missing_list_is_not_an_empty_list() -> None:
    for content in ({}, {"nodes": None}):
        response = parse_response(raw_response(**content), NodesResponse)
        with pytest.raises(Malformed):
            require(response.nodes, "nodes")
    assert require(parse_response(raw_response(nodes=[]), NodesResponse).nodes, "nodes") == ()


def test_warnings_are_read() -> None:
    response = parse_response(
        raw_response(warnings=[{"description": "Ignoring unknown field", "source": "#/job/x"}]), Response
    )
    assert [str(problem) for problem in response.problems_from_warnings] == ["Ignoring unknown field (0) [#/job/x]"]


def test_a_cancel_that_failed_with_a_200_is_found() -> None:
    entries = [
        {"error": {"code": 2017, "string": "Invalid job id"}, "step_id": "7"},
        {"error": {"code": 0}, "step_id": "8"},
    ]
    failures = cancel_failures(parse_response(raw_response(status=entries), CancelResponse))
    assert [(problem.number, problem.source) for problem in failures] == [(2017, "7")]


def test_unknown_fields_and_states_of_a_newer_slurm_are_accepted() -> None:
    jobs = [{"job_id": "1", "state": ["RUNNING", "LEVITATING"], "mood": "good"}]
    (decoded,) = parse_response(raw_response(jobs=jobs, novelty=1), StatesResponse).jobs or ()
    assert decoded.state.running
    assert decoded.state.unknown == {"LEVITATING"}


async def test_a_long_list_is_decoded_completely() -> None:
    nodes = [{"name": f"n{index}", "state": ["IDLE"]} for index in range(1001)]
    raw = require(parse_response(raw_response(nodes=nodes), RawNodes).nodes, "nodes")
    decoded = await decode_in_slices(raw, Host)
    assert [node.name for node in decoded] == [node["name"] for node in nodes]


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
def test_any_bytes_become_a_response_or_a_typed_error(status: int, content_type: str, content: Any) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        response = parse_response(RawResponse(status, content_type, body), JobsResponse)
    except SlurmError:
        return
    assert status == 200
    assert response.meta is not None
    assert not response.errors
