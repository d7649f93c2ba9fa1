# SPDX-License-Identifier: Apache-2.0
"""The bearer token of requests: static, from a file that rotates, or from an exec plugin.

The transport asks a `TokenSource` for the token of every request, so a rotated file or an expired exec credential takes
effect without a restart. Client certificates are in `slinky.kube.tls`.
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


class BearerTokenSource(Protocol):
    """Provides the bearer token of a request."""

    async def token(self) -> str | None:
        """The current token; None if requests have none."""

    def invalidate(self) -> None:
        """Drop a cached token, because the server did not accept it."""

    def certificate(self) -> tuple[Pem, Pem] | None:
        """The client certificate and key that came with the token, or None."""


class NoToken:
    """No token: the client certificate authenticates."""

    async def token(self) -> str | None:
        """Always None."""
        return None

    def invalidate(self) -> None:
        """Do nothing: no token is cached."""

    def certificate(self) -> tuple[Pem, Pem] | None:
        """Always None."""
        return None


class StaticBearerToken(NoToken):
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str | None:
        """The token."""
        return self._token


class BearerTokenFile(NoToken):
    """A token in a file that rotates; it is read again after `max_age` seconds, and after a refusal."""

    def __init__(self, path: Path, clock: Clock | None = None, max_age: float = 10.0) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._max_age = max_age
        self._read_at = float("-inf")
        self._token = ""

    async def token(self) -> str | None:
        """The token in the file; the last token while the file cannot be read."""
        if self._clock.monotonic() - self._read_at >= self._max_age:
            with contextlib.suppress(OSError):
                self._token = self._path.read_text().strip() or self._token
                self._read_at = self._clock.monotonic()
        if not self._token:
            raise Misconfigured(f"the token file {self._path} is missing or empty")
        return self._token

    def invalidate(self) -> None:
        """Read the file again for the next request."""
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
    """Credentials from an exec plugin, cached until 30 seconds before they expire."""

    def __init__(
        self, spec: ExecSpec, cluster: dict[str, object], clock: Clock | None = None, deadline: float = 60.0
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._deadline = deadline
        self._credential: _ExecStatus | None = None
        self._lock = asyncio.Lock()

    async def token(self) -> str | None:
        """The token from the plugin; only one run of the plugin is active at a time."""
        async with self._lock:
            if self._credential is None or self._is_expiring(self._credential):
                self._credential = await self._run()
            return self._credential.token

    def invalidate(self) -> None:
        """Run the plugin again for the next request."""
        self._credential = None

    def certificate(self) -> tuple[Pem, Pem] | None:
        """The client certificate and key from the plugin, or None."""
        credential = self._credential
        if credential is None or not credential.client_certificate_data or not credential.client_key_data:
            return None
        return Pem(data=credential.client_certificate_data.encode()), Pem(data=credential.client_key_data.encode())

    def _is_expiring(self, credential: _ExecStatus) -> bool:
        expiration = credential.expiration_timestamp
        return expiration is not None and self._clock.now() >= expiration - timedelta(seconds=30)

    async def _run(self) -> _ExecStatus:
        spec = self._spec
        exec_spec: dict[str, object] = {"interactive": False}
        if spec.provide_cluster_info:
            exec_spec["cluster"] = self._cluster
        info = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": exec_spec}
        env = {**os.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        env |= {entry["name"]: entry["value"] for entry in spec.env or ()}
        output = await self._run_command(env)
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise Misconfigured(f"{spec.command} did not print an ExecCredential: {error}") from error
        if credential.api_version != spec.api_version:
            raise Misconfigured(f"{spec.command} printed {credential.api_version}, not {spec.api_version}")
        return credential.status

    async def _run_command(self, env: dict[str, str]) -> bytes:
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
            raise Misconfigured(f"{spec.command} did not end within {self._deadline:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Misconfigured(
                f"{spec.command} failed with exit code {process.returncode}: {err[-300:].decode(errors='replace')}"
            )
        return out
