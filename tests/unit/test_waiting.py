# SPDX-License-Identifier: Apache-2.0
"""How tests wait: until a check is true, and with its last answer if it never is."""

import itertools

import pytest
from tests.support import waiting


async def test_a_check_is_repeated_until_it_is_true() -> None:
    answers = iter([None, AssertionError("early"), 0, "here"])

    async def check() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await waiting.eventually(check, "an answer") == "here"


def test_a_check_that_never_holds_fails_with_its_last_answer() -> None:
    with pytest.raises(AssertionError, match="a pod did not happen within 0 s; last answer: ''"):
        waiting.until(lambda: "", "a pod", seconds=0)


async def test_what_keeps_changing_is_never_quiescent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUIET", 0.1)
    counts = itertools.count()

    async def moving() -> object:
        return next(counts)

    with pytest.raises(AssertionError, match="not quiescent"):
        await waiting.quiescent(moving, "a counter", seconds=0.3)

    async def resting() -> object:
        return 7

    await waiting.quiescent(resting, "a counter", seconds=5)
