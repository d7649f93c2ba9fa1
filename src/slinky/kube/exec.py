# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a container of a pod, as `kubectl exec` does, over a WebSocket.

Each message of the protocol `v5.channel.k8s.io` begins with one byte that names its channel. The last message is a
Status with the exit code of the command.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec

from slinky.kube.aio_transport import AioTransport
from slinky.kube.client import KubeClient
from slinky.kube.errors import ApiStatus, KubeError, Unreachable
from slinky.kube.light_transport import LightTransport
from slinky.kube.types import Key
from slinky.kube.views import PODS

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class ExecSession:
    """A command that runs in a container."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Parts of standard output and standard error (`STDOUT`, `STDERR`) until the command ends."""
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == STATUS:
                self.exit_code = read_exit_code(data)
            elif channel in (STDOUT, STDERR) and data:
                yield channel, data
        if self.exit_code is None:
            raise Unreachable("the connection to the container ended before the command did")

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input."""
        await self._send(STDIN, data)

    async def end_input(self) -> None:
        """Close standard input."""
        await self._send(CLOSE, bytes([STDIN]))

    async def resize(self, columns: int, lines: int) -> None:
        """Tell the terminal of the command its size."""
        await self._send(RESIZE, msgspec.json.encode({"Width": columns, "Height": lines}))

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await self._socket.send_bytes(bytes([channel]) + data)


@contextlib.asynccontextmanager
async def run_in_pod(
    kube: KubeClient, pod: Key, container: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
) -> AsyncIterator[ExecSession]:
    """Start a command in a running container. Raises `ApiError` if the server refuses, `Unreachable`."""
    transport = kube.transport
    if not isinstance(transport, AioTransport | LightTransport):
        raise KubeError("this connection has no WebSockets, which commands in pods need")
    options: list[tuple[str, Any]] = [("container", container), ("stdout", "true")]
    options += [("stdin", "true")] if stdin else []
    options += [("tty", "true")] if tty else [("stderr", "true")]
    query = urlencode([*options, *(("command", word) for word in command)])
    path = f"{PODS.path(pod, subresource='exec')}?{query}"
    async with transport.open_websocket(path, PROTOCOL, deadline=kube.deadline) as socket:
        yield ExecSession(socket)


def read_exit_code(status: bytes) -> int:
    """The exit code in the last message of a command. Raises `KubeError` if the command could not be started."""
    try:
        decoded = msgspec.json.decode(status, type=ApiStatus)
    except msgspec.MsgspecError as error:
        raise KubeError("the server ended the command without a status") from error
    if decoded.status == "Success":
        return 0
    causes = decoded.details.causes if decoded.details and decoded.details.causes else ()
    for cause in causes:
        if cause.reason == "ExitCode" and cause.message.isdecimal():
            return int(cause.message)
    raise KubeError(decoded.message or "the command could not be started")
