# SPDX-License-Identifier: Apache-2.0
"""Laws of the admission server, over HTTP but without TLS."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from slinky.kube import AdmissionRequest, AdmissionResponse, ConfigMap, deny
from slinky.kube.admission import application, handler_timeout


def review(version: str = "v1", **request: Any) -> bytes:
    body = {"uid": "u-1", "operation": "CREATE", "object": {"metadata": {"name": "a"}, "data": {}}, **request}
    return msgspec.json.encode({"apiVersion": f"admission.k8s.io/{version}", "request": body})


async def ask(handler: Any, body: bytes, query: str = "", **options: Any) -> tuple[int, Any]:
    async with TestClient(TestServer(application({"/x": handler}, **options))) as client:
        answer = await client.post(f"/x{query}", data=body)
        text = await answer.read()
        return answer.status, msgspec.json.decode(text) if answer.status == 200 else text.decode()


async def test_the_response_has_the_uid_and_version_of_the_request() -> None:
    async def allow(_: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse()

    status, answer = await ask(allow, review("v1beta1"))
    assert status == 200
    assert answer["apiVersion"] == "admission.k8s.io/v1beta1"
    assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_a_denial_has_its_message_and_warnings() -> None:
    async def refuse(_: AdmissionRequest) -> AdmissionResponse:
        return deny("not so", warnings=["careful"])

    _, answer = await ask(refuse, review())
    assert answer["response"]["status"] == {"message": "not so", "code": 422}
    assert answer["response"]["warnings"] == ["careful"]


async def test_a_patch_is_sent_as_base64() -> None:
    operation = {"op": "add", "path": "/x", "value": 1}

    async def change(_: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(patch=(operation,))

    _, answer = await ask(change, review())
    assert answer["response"]["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(answer["response"]["patch"])) == [operation]


async def test_objects_are_decoded_as_the_view_that_the_handler_names() -> None:
    async def compare(request: AdmissionRequest) -> AdmissionResponse:
        return deny(f"{request.new(ConfigMap).data} after {request.old(ConfigMap).data}")

    new, old = ({"metadata": {"name": "a"}, "data": {"x": value}} for value in "21")
    _, answer = await ask(compare, review(object=new, oldObject=old))
    assert answer["response"]["status"]["message"] == "{'x': '2'} after {'x': '1'}"


async def test_a_new_object_may_have_a_null_as_the_time_of_its_creation() -> None:
    """Kubernetes 1.33 and older write it."""

    async def allow(request: AdmissionRequest) -> AdmissionResponse:
        return deny(f"created at {request.new(ConfigMap).metadata.creation_timestamp!r}")

    _, answer = await ask(allow, review(object={"metadata": {"name": "a", "creationTimestamp": None}}))
    assert answer["response"]["status"]["message"] == "created at ''"


async def never(_: AdmissionRequest) -> AdmissionResponse:
    await asyncio.Event().wait()
    return AdmissionResponse()


async def bug(_: AdmissionRequest) -> AdmissionResponse:
    raise ZeroDivisionError


async def misread(request: AdmissionRequest) -> AdmissionResponse:
    request.new(int)
    return AdmissionResponse()


@pytest.mark.parametrize(
    ("handler", "body", "query", "status"),
    [
        (bug, review(), "", 500),
        (never, review(), "?timeout=0s", 504),
        (misread, review(), "", 400),
        (bug, b"not json", "", 400),
        (bug, b"{}", "", 400),
        (bug, b"x" * 2000, "", 413),
    ],
    ids=["bug", "slow", "object of another shape", "no json", "no review", "too large"],
)
async def test_a_failure_is_an_http_error_so_that_the_failure_policy_decides(
    handler: Any, body: bytes, query: str, status: int
) -> None:
    assert (await ask(handler, body, query, max_bytes=1000))[0] == status


@pytest.mark.parametrize("body", [b'{"request":' * 20_000, b"[" * 100_000, b'{"request":{"uid":"\xff"}}', b"\xff"])
async def test_a_body_of_any_form_is_no_bug(body: bytes) -> None:
    assert (await ask(bug, body, "", max_bytes=10**6))[0] == 400


@pytest.mark.parametrize(("given", "expected"), [("5s", 4.5), (None, 9.0), ("300s", 9.0), ("junk", 9.0)])
def test_a_handler_gets_a_little_less_time_than_the_server_waits(given: str | None, expected: float) -> None:
    assert handler_timeout(given) == expected
