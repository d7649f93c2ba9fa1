# SPDX-License-Identifier: Apache-2.0
"""Jobs are ended by slurm-complete where possible, and otherwise over REST."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from slinky.bridge.lifecycle.release.completer import Completer
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.lifecycle.release.releaser import Releaser
from slinky.bridge.state.job_registry import JobRegistry
from slinky.observe import SystemClock
from slinky.slurm import Mirror, SlurmClient


@contextlib.asynccontextmanager
async def serve_response(path: Path, response: bytes | None) -> AsyncIterator[list[str]]:
    """A socket that sends the same response to every request, or none."""
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readline()).decode())
        if response is None:
            await reader.read()
        else:
            writer.write(response)
        writer.close()

    async with await asyncio.start_unix_server(serve, str(path)):
        yield requests


class FakeSlurm:
    """Records cancelled jobs; stands for client, mirror and registry."""

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

    def is_outcome_settled(self, job: str) -> bool:
        return False

    def request_refresh(self) -> None: ...


async def end_job(path: Path, outcome: str, code: int) -> list[str]:
    slurm: Any = FakeSlurm()
    parts = cast(SlurmClient, slurm), cast(Mirror, slurm), cast(JobRegistry, slurm), SystemClock()
    await Releaser(*parts, lambda _: None, Completer(str(path), deadline=0.2)).end_job("7", PodOutcome(outcome, code))
    return list(slurm.cancelled)


@pytest.mark.parametrize(
    ("outcome", "code", "status"), [("Succeeded", 0, 0), ("Failed", 3, 768), ("Failed", 137, 35072)]
)
async def test_an_outcome_becomes_a_wait_status(tmp_path: Path, outcome: str, code: int, status: int) -> None:
    async with serve_response(tmp_path / "s", b"ok\n") as requests:
        assert await end_job(tmp_path / "s", outcome, code) == []
    assert requests == [f"complete s7 {status}\n"]


@pytest.mark.parametrize("outcome", ["Deleted", ""])
async def test_a_job_whose_pods_were_deleted_is_cancelled(tmp_path: Path, outcome: str) -> None:
    async with serve_response(tmp_path / "s", b"ok\n") as requests:
        assert await end_job(tmp_path / "s", outcome, 0) == ["s7"]
    assert requests == []


@pytest.mark.parametrize(
    "response",
    [b"no 2017 Invalid job id specified\n", b"", b"okay\n", b"\xff\xfe\n", b"x" * 9000, None],
    ids=["refused", "hung up", "other", "not text", "without end", "silent"],
)
async def test_a_job_that_the_completer_cannot_end_is_cancelled(tmp_path: Path, response: bytes | None) -> None:
    async with serve_response(tmp_path / "s", response):
        assert await end_job(tmp_path / "s", "Succeeded", 0) == ["s7"]


async def test_a_missing_completer_is_no_error(tmp_path: Path) -> None:
    assert await end_job(tmp_path / "missing", "Failed", 1) == ["s7"]
