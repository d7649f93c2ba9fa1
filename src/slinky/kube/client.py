# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API, typed by `Resource`.

Each verb is one request with a deadline and returns a view; what is written goes out as a plain manifest. The
client waits out 429 and 503 answers that say for how long (within the deadline), and repeats nothing else:
whoever reconciles looks again anyway.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

import msgspec

from slinky.kube import config
from slinky.kube.errors import ApiError, NotFound, Unreadable, api_error
from slinky.kube.metrics import REQUESTS
from slinky.kube.resource import Page, Resource, UndecodableObject, encode
from slinky.kube.transport import AioTransport, HttpResponse, Stream, Transport
from slinky.kube.types import HasMeta, Key, Manifest
from slinky.kube.views import PODS, Scale
from slinky.observe import Clock, Log, SystemClock

T = TypeVar("T", bound=HasMeta)

log = Log("slinky.kube.client")

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"  # the server takes JSON under this name, since JSON is YAML

Propagation = Literal["Background", "Foreground", "Orphan"]


class KubeClient:
    """Talks to one API server. Use `async with connect() as client`."""

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
        """One object; `NotFound` if there is none."""
        path = resource.path(key, subresource=subresource)
        return resource.decode(await self.send("GET", path, accept=resource.accept))

    async def find(self, resource: Resource[T], key: Key) -> T | None:
        """One object, or None."""
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "", fields: str = "") -> list[T]:
        """Every object, read in pages; one of an unexpected shape raises `Unreadable`."""
        found: list[T] = []
        async for page in self.pages(resource, namespace=namespace, labels=labels, fields=fields):
            for item in page.items or ():
                if isinstance(item, UndecodableObject):
                    raise Unreadable(f"{resource.name} {item.metadata.key}: {item.why}")
                found.append(item)
        return found

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
        """A consistent list, page by page; `Expired` if the server forgot the snapshot half-way."""
        path = resource.path(namespace=namespace)
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": size, "resourceVersion": version}
        more = ""
        while True:
            asked = {**query, "continue": more} if more else query
            page = resource.decode_page(await self.send("GET", path, asked, accept=resource.accept_list))
            yield page
            more = page.metadata.continue_
            query["resourceVersion"] = ""  # the continue token carries the snapshot
            if not more:
                return

    @contextlib.asynccontextmanager
    async def open_watch(
        self, resource: Resource[Any], query: Mapping[str, Any], *, namespace: str = "", idle: float = 120.0
    ) -> AsyncIterator[Stream]:
        """One watch request, as bytes; `slinky.kube.watch.Watch` is what programs want."""
        path = _with(resource.path(namespace=namespace), {"watch": "true", **query})
        headers = {"Accept": resource.accept}
        async with self.transport.stream(path, headers=headers, deadline=self.deadline, idle=idle) as stream:
            REQUESTS.labels("WATCH", stream.status).inc()
            if stream.status != 200:
                raise api_error(stream.status, await stream.read(), f"WATCH {path}", stream.headers.get("Retry-After"))
            yield stream

    # --- writing

    async def create(self, resource: Resource[T], manifest: Manifest, *, dry_run: bool = False) -> T:
        """A new object; `AlreadyExists` if the name is taken."""
        path = resource.path(namespace=self._home(resource, manifest))
        query = {"fieldManager": self.manager, **_dry(dry_run)}
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
        """Server-side apply: the fields in `manifest` become ours and take these values."""
        path = resource.path(self._key(resource, manifest), subresource=subresource)
        query = {"fieldManager": manager or self.manager, "force": _bool(force), **_dry(dry_run)}
        body = encode({"apiVersion": resource.api_version, "kind": resource.kind, **manifest})
        return resource.decode(await self.send("PATCH", path, query, body, content=APPLY))

    async def apply_status(self, resource: Resource[T], key: Key, status: Any, *, manager: str | None = None) -> T:
        """Server-side apply of the whole status."""
        manifest = resource.manifest(key, status=status)
        return await self.apply(resource, manifest, manager=manager, subresource="status")

    async def replace(self, resource: Resource[T], manifest: Manifest, *, subresource: str = "") -> T:
        """The object becomes `manifest`; with a resourceVersion inside, only if it is still that one."""
        path = resource.path(self._key(resource, manifest), subresource=subresource)
        return resource.decode(await self.send("PUT", path, {"fieldManager": self.manager}, encode(manifest)))

    async def patch(
        self, resource: Resource[T], key: Key, patch: Manifest, *, subresource: str = "", kind: str = MERGE
    ) -> T:
        """Merge patch: given fields change, None removes."""
        path = resource.path(key, subresource=subresource)
        query = {"fieldManager": self.manager}
        return resource.decode(await self.send("PATCH", path, query, encode(patch), content=kind))

    async def patch_json(
        self, resource: Resource[T], key: Key, operations: Sequence[Manifest], *, subresource: str = ""
    ) -> T:
        """JSON patch: operations in order; a failed `test` raises `Invalid` and changes nothing."""
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
        """Ask for the object to go; the object while it lingers, None once it is gone.

        `uid` and `version` are preconditions: `Conflict` if the name now belongs to another object or it
        changed meanwhile.
        """
        options = _delete_options(uid, version, grace, propagation)
        body = await self.send("DELETE", resource.path(key), body=encode(options))
        if _is_status(body):
            return None
        left = resource.decode(body)
        return None if left.metadata.over else left

    async def delete_all(
        self, resource: Resource[Any], *, namespace: str, labels: str = "", grace: int | None = None
    ) -> None:
        """Ask for every matching object of a namespace to go."""
        path = resource.path(namespace=namespace)
        await self.send("DELETE", path, {"labelSelector": labels}, encode(_delete_options(None, None, grace, None)))

    # --- verbs of single kinds

    async def scale(self, resource: Resource[Any], key: Key) -> Scale:
        """How many replicas are wanted and there."""
        return _scale.decode(await self.send("GET", resource.path(key, subresource="scale")))

    async def set_scale(self, resource: Resource[Any], key: Key, replicas: int) -> Scale:
        """Want so many replicas."""
        path, body = resource.path(key, subresource="scale"), encode({"spec": {"replicas": replicas}})
        return _scale.decode(await self.send("PATCH", path, body=body, content=MERGE))

    async def bind(
        self,
        pod: Key,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Put a pod on a node; `Conflict` if it is on one already or the uid is another's.

        The pod takes over the annotations, and from Kubernetes 1.35 on those labels that it does not have.
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
        """Ask for a pod to leave; `TooManyRequests` while a disruption budget says no."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _delete_options(uid, None, grace, None),
        }
        path = PODS.path(pod, subresource="eviction")
        await self.send("POST", path, body=encode(eviction), patience=0)

    # --- the request itself

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
        patience: int = 4,
    ) -> bytes:
        """One request, repeated only when the server names a pause; the body of the answer."""
        path = _with(path, query)
        headers = {"Accept": accept} | ({"Content-Type": content} if body is not None else {})
        end = self.clock.monotonic() + (deadline or self.deadline)
        while True:
            left = max(0.001, end - self.clock.monotonic())
            answer = await self.transport.request(method, path, body=body, headers=headers, deadline=left)
            REQUESTS.labels(method, answer.status).inc()
            if answer.status < 300:
                return answer.body
            error = _refusal(answer, f"{method} {path}")
            pause = self._pause(error)
            if pause is None or patience <= 0 or self.clock.monotonic() + pause >= end:
                raise error
            patience -= 1
            log.info("server asks to wait", request=error.request, code=error.code, seconds=round(pause, 1))
            await self.clock.sleep(pause)

    def _pause(self, error: ApiError) -> float | None:
        if error.code not in (429, 503) or error.retry_after is None:
            return None
        return error.retry_after * self.rng.uniform(1.0, 1.25)

    def _home(self, resource: Resource[Any], manifest: Manifest) -> str:
        if not resource.namespaced:
            return ""
        return str(manifest["metadata"].get("namespace") or self.namespace)

    def _key(self, resource: Resource[Any], manifest: Manifest) -> Key:
        return Key(self._home(resource, manifest), manifest["metadata"]["name"])


@contextlib.asynccontextmanager
async def connect(
    kubeconfig: Path | str | None = None, context: str | None = None, **options: Any
) -> AsyncIterator[KubeClient]:
    """A client for the cluster this program belongs to; `options` go to `Client`."""
    access = config.find_access(Path(kubeconfig) if kubeconfig else None, context)
    if access.insecure:
        log.warning(
            "the API server is not verified: the kubeconfig says insecure-skip-tls-verify", server=access.server
        )
    transport = AioTransport(access)
    try:
        yield KubeClient(transport, **{"namespace": access.namespace, **options})
    finally:
        await transport.close()


_scale = msgspec.json.Decoder(Scale)


class _Typed(msgspec.Struct, frozen=True):
    kind: str = ""


_typed = msgspec.json.Decoder(_Typed)


def _is_status(body: bytes) -> bool:
    return _typed.decode(body).kind == "Status"


def _refusal(answer: HttpResponse, request: str) -> ApiError:
    return api_error(answer.status, answer.body, request, answer.headers.get("Retry-After"))


def _with(path: str, query: Mapping[str, Any] | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _delete_options(
    uid: str | None, version: str | None, grace: int | None, propagation: Propagation | None
) -> dict[str, Any]:
    expected = {"uid": uid, "resourceVersion": version}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {name: value for name, value in expected.items() if value} or None,
        "gracePeriodSeconds": grace,
        "propagationPolicy": propagation,
    }
    return {name: value for name, value in options.items() if value is not None}
