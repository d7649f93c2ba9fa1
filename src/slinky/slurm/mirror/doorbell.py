# SPDX-License-Identifier: Apache-2.0
"""A socket that slurmctld's prolog and epilog scripts write to, so that the mirror reads at once.

`Doorbell` listens on a UDP port or a unix datagram socket and calls a function for every datagram. `hook_script`
returns the script for PrologSlurmctld and EpilogSlurmctld. The content of a datagram is ignored; it only makes the
mirror read from slurmctld. A forged datagram therefore costs one cheap read, and a lost one delays detection by about
a second.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")


class Doorbell(asyncio.DatagramProtocol):
    """A datagram socket that calls a function whenever a hook script writes to it."""

    def __init__(
        self, ring: Callable[[], None], *, host: str = "127.0.0.1", port: int = 0, path: str | None = None
    ) -> None:
        """Call `ring` for each datagram that reaches host and port, or the unix socket at `path`."""
        self._ring = ring
        self._host, self._port, self._path = host, port, path
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def port(self) -> int:
        """The UDP port that the socket is bound to."""
        return self._port

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Call the function; the content is ignored."""
        self._ring()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._path is not None:
            _remove(self._path)
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: self, local_addr=self._path, family=socket.AF_UNIX
            )
        else:
            self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(self._host, self._port))
            self._port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._path is not None:
            _remove(self._path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()


def hook_script(host: str, port: int) -> str:
    """The script that writes to a doorbell. It never fails and never waits, so it cannot delay a job."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.match(host):
            raise ValueError(f"{host!r} is not a host name or an IP address") from None
    if not 0 < port < 65536:
        raise ValueError(f"{port} is not a port number")
    message = '"$SLURM_SCRIPT_CONTEXT" "$SLURM_JOB_ID"'
    return f"#!/bin/bash\n{{ echo {message} > /dev/udp/{host}/{port}; }} 2>/dev/null\nexit 0\n"
