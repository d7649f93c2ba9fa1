# SPDX-License-Identifier: Apache-2.0
"""What the client sends for a job."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from slinky.slurm import JobRequest, SlurmClient


class SentError(Exception):
    """The body of a request, which is not sent."""


Send = Callable[[SlurmClient, JobRequest], Awaitable[object]]
REQUESTS: dict[str, Send] = {
    "submit": lambda client, job: client.submit(job, job),
    "allocate": lambda client, job: client.allocate(job),
    "update": lambda client, job: client.update_job(7, job),
}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=REQUESTS)
async def test_excluded_hosts_are_sent_as_one_hostlist(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand names would be 100 KB in each job of slurmctld."""
    client = SlurmClient("http://127.0.0.1:1", "token")

    async def call(*_: Any, body: Any, **__: Any) -> None:
        raise SentError(msgspec.json.encode(body).decode())

    monkeypatch.setattr(client.session, "call", call)
    with pytest.raises(SentError, match=r"n\[1-1000\]") as sent:
        await send(client, JobRequest(excluded_nodes=tuple(f"n{number}" for number in range(1, 1001))))
    assert "n500" not in str(sent.value)
