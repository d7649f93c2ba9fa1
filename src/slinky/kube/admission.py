# SPDX-License-Identifier: Apache-2.0
"""Answers the API server's question: may this object in, and as what.

A table maps paths to functions from `Ask` to `Reply`. The server has limits on size and time, follows its
certificate as it rotates, and answers a bug with HTTP 500, so that the webhook's own failurePolicy decides
and not we.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from slinky.kube.metrics import ADMISSION_TIME, ADMISSIONS
from slinky.kube.tls import server_context
from slinky.kube.types import Key, View
from slinky.observe import Clock, Log, SystemClock

T = TypeVar("T")

log = Log("slinky.kube.admission")

MAX_REQUEST_BYTES = 8 * 1024 * 1024  # twice etcd's largest object, old and new, with room for its frame
MAX_HANDLER_SECONDS = 10.0


class GroupVersionKind(View, frozen=True):
    """Names a kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(View, frozen=True):
    """Who asks."""

    username: str = ""
    groups: tuple[str, ...] = ()


class OperationOptions(View, frozen=True):
    """How something is to be done; of a deletion, what becomes of the children."""

    propagation_policy: str | None = None


class AdmissionRequest(View, frozen=True):
    """One question; objects stay bytes until a handler says what they are."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool = False
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    options: OperationOptions | None = None

    @property
    def propagation(self) -> str:
        """What is to become of the children of an object that is to go; empty if nobody said."""
        return (self.options.propagation_policy if self.options else None) or ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    def new(self, view: type[T]) -> T:
        """The object as it would be."""
        return msgspec.json.decode(self.object, type=view)

    def old(self, view: type[T]) -> T:
        """The object as it is; only on UPDATE and DELETE."""
        return msgspec.json.decode(self.old_object, type=view)


class AdmissionResponse(msgspec.Struct, frozen=True):
    """The answer; a patch is a list of JSON patch operations."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()


def deny(message: str, *, code: int = 422, warnings: Iterable[str] = ()) -> AdmissionResponse:
    """No, because."""
    return AdmissionResponse(False, message, code, tuple(warnings))


Handler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    request: AdmissionRequest
    api_version: str = "admission.k8s.io/v1"


_review = msgspec.json.Decoder(_Review)


def encode_review(review: _Review, reply: AdmissionResponse) -> bytes:
    """The review that goes back, in the version it came in."""
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": reply.allowed}
    if not reply.allowed:
        response["status"] = {"message": reply.message, "code": reply.code}
    if reply.warnings:
        response["warnings"] = list(reply.warnings)
    if reply.patch:
        response |= {
            "patchType": "JSONPatch",
            "patch": msgspec.json.encode(reply.patch),
        }  # bytes become base64
    return msgspec.json.encode({"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response})


def application(handlers: Mapping[str, Handler], *, most_bytes: int = MAX_REQUEST_BYTES) -> web.Application:
    """An aiohttp application that answers at each path of `handlers`."""
    app = web.Application(client_max_size=most_bytes)
    for path, handler in handlers.items():
        app.router.add_post(path, _endpoint(path, handler))
    return app


def _endpoint(path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def endpoint(request: web.Request) -> web.Response:
        with ADMISSION_TIME.labels(path).time():
            try:
                async with asyncio.timeout(handler_timeout(request.query.get("timeout"))):
                    review = _review.decode(await request.read())
                    reply = await handler(review.request)
            except msgspec.DecodeError as error:
                return _refused(path, "unreadable", 400, str(error))
            except TimeoutError:
                return _refused(path, "late", 504, "no answer in time")
            except web.HTTPException:
                ADMISSIONS.labels(path, "refused").inc()
                raise
            except Exception as error:
                log.error("bug in an admission handler", error=error, path=path)
                return _refused(path, "bug", 500, "internal error")
        ADMISSIONS.labels(path, "allowed" if reply.allowed else "denied").inc()
        return web.Response(body=encode_review(review, reply), content_type="application/json")

    return endpoint


def _refused(path: str, result: str, code: int, text: str) -> web.Response:
    ADMISSIONS.labels(path, result).inc()
    return web.Response(status=code, text=text)


def handler_timeout(given: str | None) -> float:
    """How long a handler may take: a little less than the API server waits."""
    found = re.fullmatch(r"(\d{1,3})s", given or "")
    return min(MAX_HANDLER_SECONDS, float(found[1])) * 0.9 if found else MAX_HANDLER_SECONDS * 0.9


@contextlib.asynccontextmanager
async def serve(
    app: web.Application,
    certificate: Path,
    key: Path,
    *,
    host: str = "0.0.0.0",  # noqa: S104 -- the API server comes from outside the pod
    port: int = 9443,
    reload_interval: float = 5.0,
    clock: Clock | None = None,
) -> AsyncIterator[int]:
    """Serve over TLS while inside; gives the port. The files are looked at every `look` seconds."""
    context, follow = server_context(certificate, key)
    following = _Regularly(clock or SystemClock(), reload_interval, follow)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=90.0, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        following.cancel()
        await runner.cleanup()


class _Regularly:
    """Calls a quick function again and again until cancelled."""

    def __init__(self, clock: Clock, every: float, call: Callable[[], None]) -> None:
        self._clock, self._every, self._call = clock, every, call
        self._timer = clock.call_later(every, self._tick)

    def _tick(self) -> None:
        self._call()
        self._timer = self._clock.call_later(self._every, self._tick)

    def cancel(self) -> None:
        self._timer.cancel()
