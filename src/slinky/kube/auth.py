# SPDX-License-Identifier: Apache-2.0
"""Who we are to the API server: tokens that may rotate, and programs that mint them.

A `Tokens` object answers "which bearer token now"; the answer is asked for on every request, so a rotated
file or an expired exec credential takes effect without a restart. Client certificates live in
`slinky.kube.tls`.
"""

import asyncio
import contextlib
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from slinky.kube.errors import Misconfigured
from slinky.kube.tls import Pem
from slinky.observe import Clock, SystemClock


class Tokens(Protocol):
    """Answers which bearer token to send now."""

    async def token(self) -> str | None:
        """The token, or None to send none."""

    def refuse(self) -> None:
        """The server did not accept the last one: do not offer it from a cache again."""

    def certificate(self) -> tuple[Pem, Pem] | None:
        """A client certificate and key that came with the token, if any."""


class NoToken:
    """Sends none: the client certificate speaks."""

    async def token(self) -> str | None:
        """None."""
        return None

    def refuse(self) -> None:
        """Nothing is kept."""

    def certificate(self) -> tuple[Pem, Pem] | None:
        """None."""
        return None


class StaticBearerToken(NoToken):
    """One token for ever."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str | None:
        """The token."""
        return self._token


class BearerTokenFile(NoToken):
    """A token in a file that rotates; read every `fresh` seconds, and at once after a refusal."""

    def __init__(self, path: Path, clock: Clock | None = None, fresh: float = 10.0) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._fresh = fresh
        self._read_at = float("-inf")
        self._token = ""

    async def token(self) -> str | None:
        """What the file says; the last good answer while it is unreadable."""
        if self._clock.monotonic() - self._read_at >= self._fresh:
            with contextlib.suppress(OSError):
                self._token = self._path.read_text().strip() or self._token
                self._read_at = self._clock.monotonic()
        if not self._token:
            raise Misconfigured(f"no token in {self._path}")
        return self._token

    def refuse(self) -> None:
        """Read the file again next time."""
        self._read_at = float("-inf")


class ExecSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` part of a kubeconfig user."""

    command: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False


class _ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    expiration_timestamp: datetime | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: _ExecStatus


class ExecToken:
    """Credentials from a program, kept until a little before they expire."""

    def __init__(
        self, spec: ExecSpec, cluster: dict[str, object], clock: Clock | None = None, deadline: float = 60.0
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._deadline = deadline
        self._held: _ExecStatus | None = None
        self._once = asyncio.Lock()

    async def token(self) -> str | None:
        """The token the program gave; the program runs at most once at a time."""
        async with self._once:
            if self._held is None or self._stale(self._held):
                self._held = await self._run()
            return self._held.token

    def refuse(self) -> None:
        """Run the program again next time."""
        self._held = None

    def certificate(self) -> tuple[Pem, Pem] | None:
        """The pair the program gave, if it gave one."""
        held = self._held
        if held is None or not held.client_certificate_data or not held.client_key_data:
            return None
        return Pem(data=held.client_certificate_data.encode()), Pem(data=held.client_key_data.encode())

    def _stale(self, held: _ExecStatus) -> bool:
        end = held.expiration_timestamp
        return end is not None and self._clock.now() >= end - timedelta(seconds=30)

    async def _run(self) -> _ExecStatus:
        spec = self._spec
        asked: dict[str, object] = {"interactive": False}
        if spec.provide_cluster_info:
            asked["cluster"] = self._cluster
        info = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": asked}
        env = {**os.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        env |= {entry["name"]: entry["value"] for entry in spec.env or ()}
        out = await self._output(env)
        try:
            answer = msgspec.json.decode(out, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise Misconfigured(f"{spec.command} did not print an ExecCredential: {error}") from error
        if answer.api_version != spec.api_version:
            raise Misconfigured(f"{spec.command} answered in {answer.api_version}, not {spec.api_version}")
        return answer.status

    async def _output(self, env: dict[str, str]) -> bytes:
        spec, pipe = self._spec, asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                spec.command,
                *spec.args or (),
                env=env,
                stdout=pipe,
                stderr=pipe,
                stdin=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise Misconfigured(f"{spec.command}: {error}. {spec.install_hint}".strip()) from error
        try:
            async with asyncio.timeout(self._deadline):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise Misconfigured(f"{spec.command} gave no answer in {self._deadline:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Misconfigured(
                f"{spec.command} ended with {process.returncode}: {err[-300:].decode(errors='replace')}"
            )
        return out
