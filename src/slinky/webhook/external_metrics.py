# SPDX-License-Identifier: Apache-2.0
"""External metrics of NodeSets for the HorizontalPodAutoscaler, off by default.

The values are those of the NodeSet's status, where the operator's autoscaler has written them. A value that is not
known (Slurm does not respond, the autoscaler has not decided yet) is an error and never 0: the HorizontalPodAutoscaler
then keeps the number of workers. If another server has the API group, this one registers nothing and says so.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from slinky.api.fields.autoscaling import AutoscalingStatus, PendingPartition
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import Key, KubeClient
from slinky.kube.aggregation import (
    ForwardedCaller,
    GroupRegistration,
    ServiceReference,
    read_front_proxy,
    register,
    serve_aggregated,
    trust_front_proxy,
)
from slinky.kube.errors import KubeError
from slinky.kube.timestamps import format_timestamp
from slinky.kube.tls import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY
from slinky.observe import Clock, Log, SystemClock
from slinky.observe.metrics import gauge

log = Log("slinky.webhook.external_metrics")

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API = f"{GROUP}/{VERSION}"
#: Seconds between looks at the registration, the authority of the front proxy and the own certificate.
CHECK_SECONDS = 60.0
#: Reason of the autoscaler's status while the demand is not known.
UNKNOWN = "SlurmUnknown"

REGISTERED = gauge(
    "slinky_external_metrics_registered",
    "1 if this server has the API group external.metrics.k8s.io, 0 if another one has it.",
)


class UnknownValueError(Exception):
    """The value of a metric is not known."""


class Sample(NamedTuple):
    """One value, with the labels by which an autoscaler selects it."""

    labels: dict[str, str]
    value: int


class ExternalMetric(NamedTuple):
    """One metric: its meaning, and the samples of these labels that a NodeSet has."""

    help: str
    samples: Callable[[NodeSet, Mapping[str, str]], Iterable[Sample]]


def known_status(node_set: NodeSet) -> AutoscalingStatus:
    """What the autoscaler has computed. Raises `UnknownValueError` if it does not know the demand."""
    status = node_set.status.autoscaling
    if node_set.autoscaling is None or status is None:
        raise UnknownValueError(f"NodeSet {node_set.metadata.name} has no spec.autoscaling, which computes the number")
    if status.reason in {"", UNKNOWN}:
        raise UnknownValueError(f"the demand of NodeSet {node_set.metadata.name} is not known: {status.message}")
    return status


def of_node_set(help: str, value: Callable[[NodeSet], int]) -> ExternalMetric:
    """A metric with one value for each NodeSet."""

    def samples(node_set: NodeSet, selector: Mapping[str, str]) -> Iterable[Sample]:
        labels = {"nodeset": node_set.metadata.name, "cluster": node_set.spec.controller_ref.name}
        if selector.items() <= labels.items():
            yield Sample(labels, value(node_set))

    return ExternalMetric(help, samples)


def of_partition(help: str, value: Callable[[PendingPartition], int]) -> ExternalMetric:
    """A metric with one value for each partition that a NodeSet of mode External joins."""

    def samples(node_set: NodeSet, selector: Mapping[str, str]) -> Iterable[Sample]:
        cluster = node_set.spec.controller_ref.name
        if node_set.autoscaling is None or node_set.autoscaling.mode != "External":
            return
        if selector.get("cluster", cluster) != cluster:
            return
        for partition in known_status(node_set).partitions:
            labels = {"partition": partition.name, "cluster": cluster}
            if selector.items() <= labels.items():
                yield Sample(labels, value(partition))

    return ExternalMetric(help, samples)


METRICS: dict[str, ExternalMetric] = {
    "slurm_workers_wanted": of_node_set(
        "workers that running and pending jobs need, within the limits of `spec.autoscaling`",
        lambda item: known_status(item).next_replicas,
    ),
    "slurm_workers_ready": of_node_set("workers that are ready", lambda item: item.status.ready_replicas),
    "slurm_workers_idle": of_node_set("workers that are idle in Slurm", lambda item: item.status.slurm_idle),
    "slurm_workers_allocated": of_node_set(
        "workers that are allocated or mixed in Slurm", lambda item: item.status.slurm_allocated
    ),
    "slurm_partition_jobs_pending": of_partition(
        "pending jobs of the partition; each task of an array counts", lambda item: item.jobs
    ),
    "slurm_partition_jobs_pending_maxnodecount_total": of_partition(
        "nodes that the largest pending job of the partition requests, without held jobs",
        lambda item: item.largest_job,
    ),
}


def parse_selector(text: str) -> dict[str, str]:
    """A label selector of equalities, such as `nodeset=burst`. Raises `ValueError` for any other."""
    selected: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = part.replace("==", "=").partition("=")
        if not sign or key.endswith("!") or "(" in part:
            raise ValueError(f"{text[:80]!r} is not a selector such as nodeset=burst")
        selected[key.strip()] = value.strip()
    return selected


def metric_values(metric: str, node_sets: Sequence[NodeSet], selector: Mapping[str, str], now: str) -> dict[str, Any]:
    """The list that an autoscaler expects. Raises `UnknownValueError` if one value is unknown, or if there is none.

    An autoscaler adds up the values of a list: a partition that several NodeSets join counts once.
    """
    samples = {
        tuple(sample.labels.items()): sample for item in node_sets for sample in METRICS[metric].samples(item, selector)
    }
    if not samples:
        text = ", ".join(f"{key}={value}" for key, value in selector.items()) or "any name"
        raise UnknownValueError(f"no NodeSet has a value of {metric} with {text}")
    items = [
        {"metricName": metric, "metricLabels": sample.labels, "timestamp": now, "value": str(sample.value)}
        for sample in samples.values()
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": API, "metadata": {}, "items": items}


def resource_list() -> dict[str, Any]:
    """The metrics as resources of the API."""
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        for name in METRICS
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API, "resources": resources}


def refusal(status: int, message: str) -> web.Response:
    """An error as Kubernetes words it."""
    reasons = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reasons[status],
        "code": status,
    }
    return web.json_response(body, status=status)


class ExternalMetrics:
    """The HTTP handlers."""

    def __init__(self, client: KubeClient, caller: ForwardedCaller, clock: Clock) -> None:
        self.client, self.caller, self.clock = client, caller, clock

    def application(self) -> web.Application:
        """The application."""
        app = web.Application()
        app.router.add_get(f"/apis/{API}", self.list_resources)
        app.router.add_get(f"/apis/{API}/namespaces/{{namespace}}/{{metric}}", self.list_values)
        return app

    async def list_resources(self, request: web.Request) -> web.Response:
        """List the metrics, also to callers that may read none: otherwise each `kubectl` would report an error."""
        if not self.caller.is_forwarded(request):
            return refusal(401, "only the API server may call this server")
        return web.json_response(resource_list())

    async def list_values(self, request: web.Request) -> web.Response:
        """The values of a metric."""
        namespace, metric = request.match_info["namespace"], request.match_info["metric"]
        attributes = {"group": GROUP, "version": VERSION, "resource": metric, "namespace": namespace, "verb": "get"}
        status = await self.caller.status(request, attributes)
        if status != 200:
            return refusal(status, f"the request for {metric} in namespace {namespace} is refused")
        if metric not in METRICS:
            return refusal(404, f"there is no metric {metric}; there are {', '.join(METRICS)}")
        try:
            selector = parse_selector(request.query.get("labelSelector", ""))
            node_sets = await self.client.list(NODE_SETS, namespace=namespace)
            return web.json_response(metric_values(metric, node_sets, selector, format_timestamp(self.clock.now())))
        except ValueError as error:
            return refusal(400, str(error))
        except (UnknownValueError, KubeError, TimeoutError) as error:
            return refusal(503, str(error))


@contextlib.asynccontextmanager
async def serving_external_metrics(
    client: KubeClient, folder: Path, service: Key, *, host: str, port: int, clock: Clock | None = None
) -> AsyncIterator[int]:
    """Serve and register external metrics while the context is open; `folder` has the certificates. Yields the port."""
    clock = clock or SystemClock()
    caller = ForwardedCaller(client, await read_front_proxy(client))
    app = ExternalMetrics(client, caller, clock).application()
    pair = folder / CERTIFICATE, folder / PRIVATE_KEY
    async with (
        serve_aggregated(app, caller.proxy, *pair, host=host, port=port) as (bound, context),
        asyncio.TaskGroup() as tasks,
    ):
        reference = ServiceReference(service.namespace, service.name, bound)
        task = tasks.create_task(_keep_registered(client, caller, context, folder, reference, clock))
        try:
            yield bound
        finally:
            task.cancel()


async def _keep_registered(
    client: KubeClient,
    caller: ForwardedCaller,
    context: ssl.SSLContext,
    folder: Path,
    service: ServiceReference,
    clock: Clock,
) -> None:
    """Register the API group, follow changes of certificates, and tell who has the group if it is taken."""
    reported = ""
    while True:
        try:
            proxy = await read_front_proxy(client)
            if proxy != caller.proxy:
                trust_front_proxy(context, proxy)
                caller.proxy = proxy
            context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)
            authority = (folder / CA_CERTIFICATE).read_bytes()
            registration, holder = await register(client, GROUP, VERSION, service, authority)
            REGISTERED.set(registration is GroupRegistration.OURS)
            if holder != reported:
                text = f"the API group {GROUP} belongs to {holder}; external metrics of Slurm are not served"
                log.warning(text) if holder else log.info("external metrics are registered", service=service.name)
            reported = holder
        except (KubeError, TimeoutError, ValueError, OSError, ssl.SSLError) as error:
            log.warning("external metrics cannot be registered now; it is retried", error=error)
        await clock.sleep(CHECK_SECONDS)
