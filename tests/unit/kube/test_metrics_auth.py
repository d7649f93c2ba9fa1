# SPDX-License-Identifier: Apache-2.0
"""Only callers that the API server authorizes read /metrics, and reviews are cached."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import KubeClient
from slinky.kube.certificates import SERVING_LIFE
from slinky.kube.errors import Unreachable
from slinky.kube.metrics_auth import CACHE_SECONDS, CACHE_SIZE, MetricsAuthorizer, SelfSignedCertificate
from slinky.observe import ManualClock


def token(known: bool) -> Any:
    return answer(201, {"status": {"authenticated": known, "user": {"username": "system:serviceaccount:m:p"}}})


def access(allowed: bool) -> Any:
    return answer(201, {"status": {"allowed": allowed}})


def reviewer(*script: Any) -> tuple[MetricsAuthorizer, Scripted, ManualClock]:
    transport, clock = Scripted([*script]), ManualClock()
    return MetricsAuthorizer(KubeClient(transport, clock=clock), clock=clock), transport, clock


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic eDp5", "token x"])
async def test_a_caller_without_a_token_is_refused_without_a_request(header: str) -> None:
    authorize, transport, _ = reviewer()
    assert await authorize(header) == 401
    assert transport.sent == []


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([token(False)], 401),
        ([token(True), access(False)], 403),
        ([token(True), access(True)], 200),
        ([Unreachable("down")], 503),
        ([token(True), Unreachable("down")], 503),
    ],
)
async def test_the_api_server_decides(script: list[Any], status: int) -> None:
    authorize, _, _ = reviewer(*script)
    assert await authorize("Bearer abc") == status


async def test_a_review_is_cached_for_a_minute_and_a_failure_is_not() -> None:
    authorize, transport, clock = reviewer(Unreachable("down"), token(True), access(True), token(False))
    assert [await authorize("Bearer abc") for _ in range(3)] == [503, 200, 200]
    await clock.advance(CACHE_SECONDS)
    assert await authorize("Bearer abc") == 401
    assert len(transport.sent) == 4


async def test_invented_tokens_do_not_fill_the_memory() -> None:
    authorize, _, _ = reviewer(*(token(False) for _ in range(2 * CACHE_SIZE)))
    for number in range(2 * CACHE_SIZE):
        await authorize(f"Bearer {number}")
    assert len(authorize._results) <= CACHE_SIZE


def test_a_certificate_is_replaced_before_it_ends() -> None:
    clock = ManualClock()
    own = SelfSignedCertificate("localhost", clock)
    first = own._pair
    own.refresh()
    assert own._pair is first
    clock.jump((SERVING_LIFE - timedelta(days=20)).total_seconds())
    own.refresh()
    assert own._pair is not first
