# SPDX-License-Identifier: Apache-2.0
"""Reads one snapshot of a cluster from slurmrestd.

Jobs and nodes are required. Everything else is optional: what cannot be read is named in the snapshot, so that an
explanation can say what it does not know.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import SlurmClient, SlurmError
from slinky.slurm.model.results import Conf, Listing

#: Seconds of accounting history from which a forecast learns how much of their limits jobs use.
HISTORY_SECONDS = 86400


async def read_snapshot(client: SlurmClient, *, accounting: bool = True, history: bool = False) -> QueueSnapshot:
    """The cluster as slurmrestd reports it now. Raises `SlurmError` if jobs or nodes cannot be read."""
    jobs, hosts = await asyncio.gather(client.jobs(), client.nodes())
    begin = int(time.time()) - HISTORY_SECONDS
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
    results = await asyncio.gather(*(read() for read in reads.values()), return_exceptions=True)
    fields: dict[str, Any] = {}
    unknown: list[str] = []
    for name, result in zip(reads, results, strict=True):
        if isinstance(result, SlurmError):
            unknown.append(f"{_WORDS.get(name, name)} ({plain(str(result), 120)})")
        elif isinstance(result, BaseException):
            raise result
        else:
            fields[name] = _items(result)
    return QueueSnapshot(
        now=time.time(), jobs=_items(jobs), hosts=_items(hosts), unknown=tuple(_merged(unknown)), **fields
    )


#: Words for what could not be read.
_WORDS = {"licenses": "licences", "diag": "statistics of slurmctld", "conf": "configuration of slurmctld",
          "associations": "limits of accounts", "qos": "limits of QOS", "shares": "fair shares",
          "history": "earlier jobs"}  # fmt: skip


def _items(result: Any) -> Any:
    """The objects of a listing, the settings of a configuration, or the result itself."""
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
