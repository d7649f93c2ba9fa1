# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API, typed by `Resource`.

Each verb sends one request with a deadline and returns a view; writes send plain manifests. The client repeats a
request only if the server answers 429 or 503 with a Retry-After that fits into the deadline. It repeats nothing else,
because reconciles are retried anyway.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

import msgspec

from slinky.kube import config
from slinky.kube.errors import ApiError, NotFound, Unreadable, api_error
from slinky.kube.resource import Page, Resource, UndecodableObject, encode
from slinky.kube.transport import HttpResponse, Stream, Transport
from slinky.kube.types import HasMeta, Key, Manifest
from slinky.kube.views import PODS, Scale
from slinky.observe import Clock, Log, SystemClock

T = TypeVar("T", bound=HasMeta)

log = Log("slinky.kube.client")

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"  # the body is JSON, which is valid YAML

Propagation = Literal["Background", "Foreground", "Orphan"]


class KubeClient:
    """A client of one API server; `async with connect() as client` creates one."""

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        manager: str = "slinky",
        deadline: float = 30.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.transport = transport
        self.namespace = namespace
        self.manager = manager
        self.deadline = deadline
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()  # noqa: S311

    # --- reading

    async def get(self, resource: Resource[T], key: Key, *, subresource: str = "") -> T:
        """Read one object; `NotFound` if there is none."""
        path = resource.path(key, subresource=subresource)
        return resource.decode(await self.send("GET", path, accept=resource.accept))

    async def find(self, resource: Resource[T], key: Key) -> T | None:
        """Read one object; None if there is none."""
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "", fields: str = "") -> list[T]:
        """Read all objects, in pages; `Unreadable` if one of them cannot be decoded."""
        items: list[T] = []
        async for page in self.pages(resource, namespace=namespace, labels=labels, fields=fields):
            for item in page.items or ():
                if isinstance(item, UndecodableObject):
                    raise Unreadable(f"{resource.name} {item.metadata.key}: {item.why}")
                items.append(item)
        return items

    async def pages(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        size: int = 500,
        version: str = "",
    ) -> AsyncIterator[Page[T | UndecodableObject]]:
        """Read a consistent list page by page; `Expired` if the server drops its snapshot in between."""
        path = resource.path(namespace=namespace)
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": size, "resourceVersion": version}
        continue_token = ""
        while True:
            page_query = {**query, "continue": continue_token} if continue_token else query
            page = resource.decode_page(await self.send("GET", path, page_query, accept=resource.accept_list))
            yield page
            continue_token = page.metadata.continue_
            query["resourceVersion"] = ""  # the continue token contains the version of the snapshot
            if not continue_token:
                return

    @contextlib.asynccontextmanager
    async def open_watch(
        self, resource: Resource[Any], query: Mapping[str, Any], *, namespace: str = "", idle: float = 120.0
    ) -> AsyncIterator[Stream]:
        """Send one watch request and yield its stream of bytes; programs use `slinky.kube.watch.Watch` instead."""
        path = _add_query(resource.path(namespace=namespace), {"watch": "true", **query})
        headers = {"Accept": resource.accept}
        async with self.transport.stream(path, headers=headers, deadline=self.deadline, idle=idle) as stream:
            if stream.status != 200:
                raise api_error(stream.status, await stream.read(), f"WATCH {path}", stream.headers.get("Retry-After"))
            yield stream

    # --- writing

    async def create(self, resource: Resource[T], manifest: Manifest, *, dry_run: bool = False) -> T:
        """Create an object; `AlreadyExists` if there is one of this name."""
        path = resource.path(namespace=self._namespace_of(resource, manifest))
        query = {"fieldManager": self.manager, **_dry_run_query(dry_run)}
        return resource.decode(await self.send("POST", path, query, encode(manifest)))

    async def apply(
        self,
        resource: Resource[T],
        manifest: Manifest,
        *,
        manager: str | None = None,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: the field manager owns the fields in `manifest` and sets their values."""
        path = resource.path(self._key_of(resource, manifest), subresource=subresource)
        query = {"fieldManager": manager or self.manager, "force": _format_bool(force), **_dry_run_query(dry_run)}
        body = encode({"apiVersion": resource.api_version, "kind": resource.kind, **manifest})
        return resource.decode(await self.send("PATCH", path, query, body, content=APPLY))

    async def apply_status(self, resource: Resource[T], key: Key, status: Any, *, manager: str | None = None) -> T:
        """Server-side apply of the status subresource."""
        manifest = resource.manifest(key, status=status)
        return await self.apply(resource, manifest, manager=manager, subresource="status")

    async def replace(self, resource: Resource[T], manifest: Manifest, *, subresource: str = "") -> T:
        """Replace an object; `Conflict` if `manifest` has a resourceVersion that is not the current one."""
        path = resource.path(self._key_of(resource, manifest), subresource=subresource)
        return resource.decode(await self.send("PUT", path, {"fieldManager": self.manager}, encode(manifest)))

    async def patch(
        self, resource: Resource[T], key: Key, patch: Manifest, *, subresource: str = "", kind: str = MERGE
    ) -> T:
        """Apply a merge patch (or a strategic merge patch): fields in `patch` change, None removes a field."""
        path = resource.path(key, subresource=subresource)
        query = {"fieldManager": self.manager}
        return resource.decode(await self.send("PATCH", path, query, encode(patch), content=kind))

    async def patch_json(
        self, resource: Resource[T], key: Key, operations: Sequence[Manifest], *, subresource: str = ""
    ) -> T:
        """Apply the operations of a JSON patch in order; `Invalid` and no change if a `test` operation fails."""
        path = resource.path(key, subresource=subresource)
        query, body = {"fieldManager": self.manager}, encode(list(operations))
        return resource.decode(await self.send("PATCH", path, query, body, content=JSON_PATCH))

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> T | None:
        """Delete an object. Returns the object while finalizers or a grace period keep it, None if it is gone.

        `uid` and `version` are preconditions: `Conflict` if another object has the name, or the object has changed.
        """
        options = _delete_options(uid, version, grace, propagation)
        body = await self.send("DELETE", resource.path(key), body=encode(options))
        if _is_status(body):
            return None
        remaining = resource.decode(body)
        return None if remaining.metadata.is_final else remaining

    async def delete_all(
        self, resource: Resource[Any], *, namespace: str, labels: str = "", grace: int | None = None
    ) -> None:
        """Delete all matching objects of a namespace."""
        path = resource.path(namespace=namespace)
        await self.send("DELETE", path, {"labelSelector": labels}, encode(_delete_options(None, None, grace, None)))

    # --- subresources

    async def scale(self, resource: Resource[Any], key: Key) -> Scale:
        """Read the scale subresource."""
        return _scale_decoder.decode(await self.send("GET", resource.path(key, subresource="scale")))

    async def set_scale(self, resource: Resource[Any], key: Key, replicas: int) -> Scale:
        """Set the number of replicas through the scale subresource."""
        path, body = resource.path(key, subresource="scale"), encode({"spec": {"replicas": replicas}})
        return _scale_decoder.decode(await self.send("PATCH", path, body=body, content=MERGE))

    async def bind(
        self,
        pod: Key,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Bind a pod to a node; `Conflict` if the pod is bound already or has another uid.

        The server copies the annotations to the pod, and from Kubernetes 1.35 on the labels that the pod does not have.
        """
        meta = {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": uid,
            "annotations": annotations,
            "labels": labels,
        }
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {name: value for name, value in meta.items() if value},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.send("POST", PODS.path(pod, subresource="binding"), body=encode(binding))

    async def evict(self, pod: Key, *, uid: str | None = None, grace: int | None = None) -> None:
        """Evict a pod; `TooManyRequests` while a disruption budget does not allow it."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _delete_options(uid, None, grace, None),
        }
        path = PODS.path(pod, subresource="eviction")
        await self.send("POST", path, body=encode(eviction), max_retries=0)

    # --- requests

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        deadline: float | None = None,
        max_retries: int = 4,
    ) -> bytes:
        """Send a request and return the body of the response; repeat it if the server says when."""
        path = _add_query(path, query)
        headers = {"Accept": accept} | ({"Content-Type": content} if body is not None else {})
        end = self.clock.monotonic() + (deadline or self.deadline)
        while True:
            remaining = max(0.001, end - self.clock.monotonic())
            response = await self.transport.request(method, path, body=body, headers=headers, deadline=remaining)
            if response.status < 300:
                return response.body
            error = _response_error(response, f"{method} {path}")
            delay = self._retry_delay(error)
            if delay is None or max_retries <= 0 or self.clock.monotonic() + delay >= end:
                raise error
            max_retries -= 1
            log.info(
                "the API server is busy; the request is repeated",
                request=error.request,
                code=error.code,
                seconds=round(delay, 1),
            )
            await self.clock.sleep(delay)

    def _retry_delay(self, error: ApiError) -> float | None:
        if error.code not in (429, 503) or error.retry_after is None:
            return None
        return error.retry_after * self.rng.uniform(1.0, 1.25)

    def _namespace_of(self, resource: Resource[Any], manifest: Manifest) -> str:
        if not resource.namespaced:
            return ""
        return str(manifest["metadata"].get("namespace") or self.namespace)

    def _key_of(self, resource: Resource[Any], manifest: Manifest) -> Key:
        return Key(self._namespace_of(resource, manifest), manifest["metadata"]["name"])


@contextlib.asynccontextmanager
async def connect(
    kubeconfig: Path | str | None = None,
    context: str | None = None,
    *,
    open_transport: Callable[[config.Access], Transport] | None = None,
    **options: Any,
) -> AsyncIterator[KubeClient]:
    """A client with the credentials that kubectl would use here; `options` go to `KubeClient`.

    `open_transport` replaces `AioTransport`.
    """
    access = config.find_access(Path(kubeconfig) if kubeconfig else None, context)
    if access.insecure:
        log.warning(
            "the API server is not verified, because the kubeconfig sets insecure-skip-tls-verify", server=access.server
        )
    if open_transport is None:
        # Imported here: a command brings a transport that loads no aiohttp.
        from slinky.kube.aio_transport import AioTransport

        open_transport = AioTransport
    transport = open_transport(access)
    try:
        yield KubeClient(transport, **{"namespace": access.namespace, **options})
    finally:
        await transport.close()


_scale_decoder = msgspec.json.Decoder(Scale)


class _KindOnly(msgspec.Struct, frozen=True):
    kind: str = ""


_kind_decoder = msgspec.json.Decoder(_KindOnly)


def _is_status(body: bytes) -> bool:
    return _kind_decoder.decode(body).kind == "Status"


def _response_error(response: HttpResponse, request: str) -> ApiError:
    return api_error(response.status, response.body, request, response.headers.get("Retry-After"))


def _add_query(path: str, query: Mapping[str, Any] | None) -> str:
    parameters = {name: value for name, value in (query or {}).items() if value not in ("", None)}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _format_bool(value: bool) -> str:
    return "true" if value else "false"


def _dry_run_query(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _delete_options(
    uid: str | None, version: str | None, grace: int | None, propagation: Propagation | None
) -> dict[str, Any]:
    preconditions = {"uid": uid, "resourceVersion": version}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {name: value for name, value in preconditions.items() if value} or None,
        "gracePeriodSeconds": grace,
        "propagationPolicy": propagation,
    }
    return {name: value for name, value in options.items() if value is not None}
