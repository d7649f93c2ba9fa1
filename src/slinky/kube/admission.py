# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server for admission webhooks.

A table maps URL paths to handlers, functions from `AdmissionRequest` to `AdmissionResponse`. The server limits the size
and time of requests and reloads its certificate when the files change. It answers an unexpected exception with HTTP
500, so that the failurePolicy of the webhook decides.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from slinky.bounds import ADMISSION_BYTES_MAX
from slinky.kube.metrics import ADMISSION_TIME, ADMISSIONS
from slinky.kube.tls import server_context
from slinky.kube.types import Key, View
from slinky.observe import Clock, Log, SystemClock

T = TypeVar("T")

log = Log("slinky.kube.admission")

MAX_HANDLER_SECONDS = 10.0


class GroupVersionKind(View, frozen=True):
    """A kind with its group and version."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(View, frozen=True):
    """The user that sent the request."""

    username: str = ""
    groups: tuple[str, ...] = ()


class OperationOptions(View, frozen=True):
    """The options of the operation; for a deletion, how dependents are deleted."""

    propagation_policy: str | None = None


class AdmissionRequest(View, frozen=True):
    """One admission request; its objects are decoded when a handler names their view."""

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
        """The propagation policy of a deletion; empty if the request has none."""
        return (self.options.propagation_policy if self.options else None) or ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    def new(self, view: type[T]) -> T:
        """The object after the operation."""
        return msgspec.json.decode(self.object, type=view)

    def old(self, view: type[T]) -> T:
        """The object before the operation; only for UPDATE and DELETE."""
        return msgspec.json.decode(self.old_object, type=view)


class AdmissionResponse(msgspec.Struct, frozen=True):
    """The decision of a handler; `patch` is a list of JSON patch operations."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()


def deny(message: str, *, code: int = 422, warnings: Iterable[str] = ()) -> AdmissionResponse:
    """Deny a request with a message for the user."""
    return AdmissionResponse(False, message, code, tuple(warnings))


Handler = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    request: AdmissionRequest
    api_version: str = "admission.k8s.io/v1"


_review_decoder = msgspec.json.Decoder(_Review)


def encode_review(review: _Review, decision: AdmissionResponse) -> bytes:
    """Encode the response in the API version of the request."""
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {"message": decision.message, "code": decision.code}
    if decision.warnings:
        response["warnings"] = list(decision.warnings)
    if decision.patch:
        response |= {
            "patchType": "JSONPatch",
            "patch": msgspec.json.encode(decision.patch),
        }  # bytes become base64
    return msgspec.json.encode({"apiVersion": review.api_version, "kind": "AdmissionReview", "response": response})


def application(handlers: Mapping[str, Handler], *, max_bytes: int = ADMISSION_BYTES_MAX) -> web.Application:
    """An aiohttp application with one route for each path of `handlers`."""
    app = web.Application(client_max_size=max_bytes)
    for path, handler in handlers.items():
        app.router.add_post(path, _endpoint(path, handler))
    return app


def _endpoint(path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def endpoint(request: web.Request) -> web.Response:
        with ADMISSION_TIME.labels(path).time():
            try:
                async with asyncio.timeout(handler_timeout(request.query.get("timeout"))):
                    review = _review_decoder.decode(await request.read())
                    decision = await handler(review.request)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                return _error_response(path, "unreadable", 400, str(error))
            except TimeoutError:
                return _error_response(path, "late", 504, "the handler did not answer in time")
            except web.HTTPException:
                ADMISSIONS.labels(path, "refused").inc()
                raise
            except Exception as error:
                log.error("admission handler failed with an unexpected error", error=error, path=path)
                return _error_response(path, "bug", 500, "internal error")
        ADMISSIONS.labels(path, "allowed" if decision.allowed else "denied").inc()
        return web.Response(body=encode_review(review, decision), content_type="application/json")

    return endpoint


def _error_response(path: str, result: str, code: int, text: str) -> web.Response:
    ADMISSIONS.labels(path, result).inc()
    return web.Response(status=code, text=text)


def handler_timeout(timeout: str | None) -> float:
    """Seconds that a handler may take: 90 % of the `timeout` parameter with which the API server calls."""
    match = re.fullmatch(r"(\d{1,3})s", timeout or "")
    return min(MAX_HANDLER_SECONDS, float(match[1])) * 0.9 if match else MAX_HANDLER_SECONDS * 0.9


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
    """Serve over TLS while the context is open. Yields the port. The certificate files are checked regularly."""
    context, reload_certificate = server_context(certificate, key)
    reloading = _PeriodicCall(clock or SystemClock(), reload_interval, reload_certificate)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=90.0, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        reloading.cancel()
        await runner.cleanup()


class _PeriodicCall:
    """Calls a fast function at a fixed interval until cancelled."""

    def __init__(self, clock: Clock, interval: float, call: Callable[[], None]) -> None:
        self._clock, self._interval, self._call = clock, interval, call
        self._timer = clock.call_later(interval, self._tick)

    def _tick(self) -> None:
        self._call()
        self._timer = self._clock.call_later(self._interval, self._tick)

    def cancel(self) -> None:
        self._timer.cancel()
