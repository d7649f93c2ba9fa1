# SPDX-License-Identifier: Apache-2.0
"""Reads one snapshot of a cluster from slurmrestd.

Jobs and nodes are required. Everything else is optional: what cannot be read is named in the snapshot, so that an
explanation can say what it does not know. A reader that reads again asks slurmctld only for what has changed.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from slinky.insight.plain_text import plain
from slinky.slurm.errors import Malformed, SlurmError

if TYPE_CHECKING:
    from slinky.insight.queue_snapshot import QueueSnapshot
    from slinky.slurm import Host, Job, Listing, SlurmClient

#: Seconds of accounting history from which a forecast learns how much of their limits jobs use.
HISTORY_SECONDS = 86400
#: Seconds after which a snapshot is read again although neither jobs nor nodes have changed.
REFRESH_SECONDS = 30


class SnapshotReader:
    """Reads a cluster repeatedly. While nothing changes, each read costs two short answers of slurmctld."""

    def __init__(self, client: "SlurmClient", *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._jobs: Listing[Job] | None = None
        self._hosts: Listing[Host] | None = None
        self._last: QueueSnapshot | None = None

    async def hosts(self, *, future: bool = False) -> "tuple[Host, ...]":
        """Every node, with `future` also potential ones; the same object as before if none has changed.

        Raises `SlurmError`.
        """
        changed = await self._client.nodes(since=self._hosts.at if self._hosts else None, future=future)
        self._hosts = changed or self._hosts
        return self._hosts.items if self._hosts else ()

    async def snapshot(self, *, accounting: bool = True, history: bool = False) -> "QueueSnapshot":
        """The cluster now; the same object as before if nothing has changed. Raises `SlurmError`."""
        from asyncio import gather

        jobs, hosts = await gather(self._read_jobs(), self.hosts())
        last, now = self._last, self._clock()
        if last and last.jobs is jobs and last.hosts is hosts and now - last.now < REFRESH_SECONDS:
            return last
        from slinky.insight.queue_snapshot import QueueSnapshot

        rest = await _read_rest(self._client, now, accounting=accounting, history=history)
        self._last = QueueSnapshot(now=now, jobs=jobs, hosts=hosts, **rest)
        return self._last

    async def _read_jobs(self) -> "tuple[Job, ...]":
        changed = await self._client.jobs(since=self._jobs.at if self._jobs else None)
        self._jobs = changed or self._jobs
        return self._jobs.items if self._jobs else ()


async def read_snapshot(client: "SlurmClient", *, accounting: bool = True, history: bool = False) -> "QueueSnapshot":
    """The cluster as slurmrestd reports it now. Raises `SlurmError` if jobs or nodes cannot be read."""
    return await SnapshotReader(client).snapshot(accounting=accounting, history=history)


async def _read_rest(client: "SlurmClient", now: float, *, accounting: bool, history: bool) -> dict[str, Any]:
    from asyncio import gather

    begin = int(now) - HISTORY_SECONDS
    reads: dict[str, Callable[[], Awaitable[Any]]] = {
        "partitions": client.partitions,
        "reservations": client.reservations,
        "licenses": client.licenses,
        "diag": client.diag,
        "conf": client.conf,
    }
    if accounting:
        reads |= {
            "qos": client.accounting.qos,
            "associations": client.accounting.associations,
            "shares": client.shares,
        }
    if history:
        reads["history"] = lambda: client.accounting.jobs(start_time=begin)
    results = await gather(*(read() for read in reads.values()), return_exceptions=True)
    fields: dict[str, Any] = {}
    unknown: list[str] = []
    for name, result in zip(reads, results, strict=True):
        if isinstance(result, SlurmError):
            unknown.append(f"{_WORDS.get(name, name)} ({_cause(result)})")
        elif isinstance(result, BaseException):
            raise result
        else:
            fields[name] = _items(result)
    return fields | {"unknown": tuple(_merged(unknown))}


def _cause(error: SlurmError) -> str:
    """Why something could not be read."""
    without_accounting = isinstance(error, Malformed) and "Unable to find requested URL endpoint" in str(error)
    return "the cluster has no accounting" if without_accounting else plain(str(error), 120)


#: Words for what could not be read.
_WORDS = {"licenses": "licences", "diag": "statistics of slurmctld", "conf": "configuration of slurmctld",
          "associations": "limits of accounts", "qos": "limits of QOS", "shares": "fair shares",
          "history": "earlier jobs"}  # fmt: skip


def _items(result: Any) -> Any:
    """The objects of a listing, the settings of a configuration, or the result itself."""
    from slinky.slurm.model.results import Conf, Listing

    if isinstance(result, Listing):
        return result.items
    return result.settings if isinstance(result, Conf) else result


def _merged(texts: Iterable[str]) -> Iterable[str]:
    """Each cause once, with everything that it hides."""
    causes: dict[str, list[str]] = {}
    for text in texts:
        name, _, cause = text.partition(" (")
        causes.setdefault(cause, []).append(name)
    return (f"{', '.join(names)} ({cause}" for cause, names in causes.items())
