# SPDX-License-Identifier: Apache-2.0
"""Bodies that a hostile client could send to the admission webhooks, and answers of a hostile slurmrestd."""

import contextlib
import io
import json
import random
import ssl
from collections.abc import Iterator
from typing import Any

import aiohttp
from aiohttp import web
from tests.support.hostile_texts import PIECES
from tests.support.slurmrestd_proxy import Fault, empty, errors_in_200, garbage, page, truncated

from slinky.kube import Resource
from slinky.slurm.transport.http import HttpTransport

#: Values in the place of any other one.
VALUES: tuple[Any, ...] = (
    None, True, -1, 2**31, 2**63, 10**30, 1e308, "", [], {}, [[]], [None], {"": None}, {"set": True, "number": 10**30},
    ["a[0-999999999999999999]"], "a[0-65532],a[0-65532]", "²", "9" * 4301, "\u0000", *PIECES,
)  # fmt: skip
#: Bodies that are no admission review.
BODIES = (
    b"", b"null", b"[]", b"\xff\xfe", b"{", b"[" * 100_000, b'{"request":' * 20_000, b"1" * 100_000,
    b'"' + b"a" * 2**22, b'{"request":{"uid":1}}', b'{"request":{"uid":"u","object":{"spec":7}}}', b" " * 2**24,
)  # fmt: skip


def mutate(value: Any, rng: random.Random, rate: float) -> Any:
    """Return a copy in which each part is replaced by a hostile value with this probability."""
    if rng.random() < rate:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        return {key: mutate(part, rng, rate) for key, part in value.items()}
    if isinstance(value, list):
        return [mutate(part, rng, rate) for part in value] * (50 if rng.random() < rate else 1)
    return value


class HostileCaller:
    """Sends bodies to a webhook that no API server would send."""

    def __init__(self, url: str, paths: tuple[str, ...], rng: random.Random) -> None:
        self._url, self._paths, self._rng = url, paths, rng

    async def send(self, resource: Resource[Any], manifest: dict[str, Any]) -> int:
        """Send a review of a mutated object, sometimes no review at all; returns the status code, 0 without one."""
        body = self._rng.choice(BODIES) if self._rng.random() < 0.2 else self._review(resource, manifest)
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(self._url, timeout=timeout) as session:
            with contextlib.suppress(aiohttp.ClientError):
                path, data = self._rng.choice(self._paths), io.BytesIO(body)
                async with session.post(path, data=data, ssl=_UNVERIFIED) as response:
                    return response.status
        return 0

    def _review(self, resource: Resource[Any], manifest: dict[str, Any]) -> bytes:
        rate = self._rng.choice([0.0, 0.01, 0.1])
        kind = {"group": resource.api_version.rpartition("/")[0], "version": "v1", "kind": resource.kind}
        request = {
            "uid": "u",
            "kind": kind,
            "operation": self._rng.choice(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]),
            "namespace": manifest["metadata"].get("namespace", ""),
            "name": manifest["metadata"]["name"],
            "userInfo": {"username": "mallory"},
            "object": mutate(manifest, self._rng, rate),
            "oldObject": mutate(manifest, self._rng, rate),
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        return json.dumps(mutate(review, self._rng, rate / 10)).encode()


#: The caller is hostile: it does not ask for the identity of the server.
_UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_UNVERIFIED.check_hostname = False
_UNVERIFIED.verify_mode = ssl.CERT_NONE


class HostileSlurmrestd:
    """Answers of slurmrestd in which parts are replaced, and answers that slurmrestd would not give."""

    def __init__(self, upstream: str, rng: random.Random) -> None:
        self._transport, self._rng = HttpTransport(upstream), rng
        self._faults = tuple(self._other_faults())
        self.answers = 0

    async def close(self) -> None:
        """Close the connections to slurmrestd."""
        await self._transport.close()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse | None:
        """Answer a request; a fault of `SlurmrestdProxy`. Nothing is written to Slurm."""
        self.answers += 1
        if request.method != "GET" or self._rng.random() < 0.2:
            return await self._rng.choice(self._faults)(request)
        headers = {name: value for name, value in request.headers.items() if name.upper().startswith("X-SLURM")}
        reply = await self._transport.send("GET", request.raw_path, headers=headers, body=None, deadline=60)
        try:
            document = mutate(json.loads(reply.body), self._rng, self._rng.choice([0.001, 0.02, 0.2]))
        except ValueError:
            document = None
        return web.Response(status=reply.status, text=json.dumps(document), content_type="application/json")

    def _other_faults(self) -> Iterator[Fault]:
        yield from (empty("jobs"), empty("nodes"), errors_in_200(), garbage(), truncated())
        yield from (page(status, "x" * 10_000) for status in (200, 301, 401, 500, 999))
        yield page(200, "[" * 100_000, "application/json")
        yield page(200, '{"jobs":' * 20_000, "application/json")
        yield page(200, '{"errors":[' + ",".join(['{"error":"x"}'] * 10_000) + "]}", "application/json")
