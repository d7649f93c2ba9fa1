# SPDX-License-Identifier: Apache-2.0
"""Jobs are ended natively where that works, and over REST whatever goes wrong with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from slinky.bridge.lifecycle.completer import Completer
from slinky.bridge.lifecycle.outcome import PodOutcome
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.state.job_registry import JobRegistry
from slinky.observe import SystemClock
from slinky.slurm import Mirror, SlurmClient


@contextlib.asynccontextmanager
async def answering(path: Path, answer: bytes | None) -> AsyncIterator[list[str]]:
    """A socket that gives one answer to everything, or none."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, str(path)):
        yield asked


class Rest:
    """Notes what is cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def cancel(self, job: str) -> None:
        self.cancelled.append(job)

    def record_ended(self, job: str) -> None:
        pass

    def ids_to_end(self, job: str) -> list[str]:
        return [self.sluid(job)]

    def sluid(self, job: str) -> str:
        return f"s{job}"

    def request_refresh(self) -> None: ...


async def ended(path: Path, outcome: str, code: int) -> list[str]:
    rest: Any = Rest()
    parts = cast(SlurmClient, rest), cast(Mirror, rest), cast(JobRegistry, rest), SystemClock()
    await Releaser(*parts, Completer(str(path), deadline=0.2)).end("7", PodOutcome(outcome, code))
    return list(rest.cancelled)


@pytest.mark.parametrize(
    ("outcome", "code", "status"), [("Succeeded", 0, 0), ("Failed", 3, 768), ("Failed", 137, 35072)]
)
async def test_an_outcome_becomes_a_wait_status(tmp_path: Path, outcome: str, code: int, status: int) -> None:
    async with answering(tmp_path / "s", b"ok\n") as asked:
        assert await ended(tmp_path / "s", outcome, code) == []
    assert asked == [f"complete s7 {status}\n"]


@pytest.mark.parametrize("outcome", ["Deleted", ""])
async def test_a_job_whose_pods_were_deleted_is_cancelled(tmp_path: Path, outcome: str) -> None:
    async with answering(tmp_path / "s", b"ok\n") as asked:
        assert await ended(tmp_path / "s", outcome, 0) == ["s7"]
    assert asked == []


@pytest.mark.parametrize(
    "answer",
    [b"no 2017 Invalid job id specified\n", b"", b"okay\n", b"\xff\xfe\n", b"x" * 9000, None],
    ids=["refused", "hung up", "other", "not text", "without end", "silent"],
)
async def test_what_cannot_be_ended_natively_is_cancelled(tmp_path: Path, answer: bytes | None) -> None:
    async with answering(tmp_path / "s", answer):
        assert await ended(tmp_path / "s", "Succeeded", 0) == ["s7"]


async def test_a_completer_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    assert await ended(tmp_path / "nobody", "Failed", 1) == ["s7"]
