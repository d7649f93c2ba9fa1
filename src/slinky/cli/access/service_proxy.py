# SPDX-License-Identifier: Apache-2.0
"""The way to slurmrestd through the API server, which forwards requests to Services."""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from slinky.api.restapi import RestApi
from slinky.kube.errors import Unreachable
from slinky.kube.transport import Transport
from slinky.slurm.errors import TransportError
from slinky.slurm.transport.decode import RawResponse
from slinky.slurm.transport.request_transport import Query


class ServiceProxyTransport:
    """Sends requests to slurmrestd through the API server's proxy of its Service."""

    def __init__(self, transport: Transport, rest_api: RestApi) -> None:
        self._transport = transport
        service = f"{rest_api.scheme}:{rest_api.service_name}:{rest_api.port}"
        self._base = f"/api/v1/namespaces/{rest_api.metadata.namespace}/services/{service}/proxy"

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        query: Query = (),
        body: bytes | None = None,
        deadline: float = 30.0,
    ) -> RawResponse:
        """Send a request and return the response, whatever its status. Raises `TransportError` if there is none."""
        target = f"{self._base}{path}{'?' + urlencode(query) if query else ''}"
        content = {"Content-Type": "application/json"} if body is not None else {}
        try:
            response = await self._transport.request(
                method, target, body=body, headers={**headers, **content}, deadline=deadline
            )
        except Unreachable as error:
            raise TransportError(f"{method} {path}: {error}", maybe_applied=method != "GET") from error
        if refusal := read_refusal(response.body):
            raise TransportError(f"the API server does not reach slurmrestd: {refusal}", maybe_applied=method != "GET")
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        return RawResponse(response.status, kind, response.body)

    async def close(self) -> None:
        """Nothing to close: the transport belongs to the Kubernetes client."""


class _StatusBody(msgspec.Struct, frozen=True):
    kind: str = ""
    message: str = ""


def read_refusal(body: bytes) -> str:
    """The message of the API server if it answers in place of slurmrestd; empty for a response of slurmrestd."""
    if b'"Status"' not in body[:200]:
        return ""
    try:
        status = msgspec.json.decode(body, type=_StatusBody)
    except msgspec.MsgspecError:
        return ""
    return (status.message or "no reason given") if status.kind == "Status" else ""
