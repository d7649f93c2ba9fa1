# SPDX-License-Identifier: Apache-2.0
"""Builds the exporter from its parts and runs it. A scrape computes metrics from memory and asks Slurm nothing."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from slinky.exporter import series
from slinky.exporter.cluster_reader import ClusterReader
from slinky.exporter.compat import COMPAT_PAGES, CompatFamily
from slinky.exporter.families import PREFIX
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.exporter.request_counts import RequestCounts
from slinky.exporter.settings import ExporterSettings
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.kube.tls import TlsFiles, trust_files
from slinky.observe import ExplainedError, Health, SystemClock
from slinky.observe.metrics import PAGES, REGISTRY
from slinky.slurm import Mirror, NativeMetrics, SlurmClient, TokenError, TokenSource, configured_tokens
from slinky.slurm.tokens import read_claims

#: A program that runs beside the exporter with the same client and mirror, such as the page.
Companion = Callable[[SlurmClient, Mirror], Coroutine[Any, Any, None]]


class ExporterError(ExplainedError):
    """A setting of the exporter cannot be used."""


class ClusterCollector(Collector):
    """The metrics of one cluster, computed when they are scraped."""

    def __init__(self, reader: ClusterReader, settings: ExporterSettings, tokens: TokenSource | None = None) -> None:
        self._reader, self._settings, self._tokens = reader, settings, tokens

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the cluster."""
        snapshot, reader = self._reader.snapshot(), self._reader
        details = shown_details(self._settings, snapshot)
        yield from series.collect(snapshot, details, self._settings.series_max, reader.observed.dropped)
        yield from reader.observed.collect(reader.cluster)
        yield reader.gpu_time.collect(reader.cluster)
        yield token_expiry(self._tokens, reader.cluster)

    def describe(self) -> list[Metric]:
        """No metric is known before the cluster has been read."""
        return []


class CompatCollector(Collector):
    """One page of metrics under the names of another exporter."""

    def __init__(self, reader: ClusterReader, settings: ExporterSettings, families: Iterable[CompatFamily]) -> None:
        self._reader, self._settings, self._families = reader, settings, families

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the page."""
        snapshot = self._reader.snapshot()
        details = shown_details(self._settings, snapshot)
        yield from series.collect_compat(self._families, snapshot, details, self._settings.series_max)

    def describe(self) -> list[Metric]:
        """No metric is known before the cluster has been read."""
        return []


def shown_details(settings: ExporterSettings, snapshot: ClusterSnapshot) -> list[str]:
    """The kinds of objects that have series of their own."""
    wanted = {
        "accounts": settings.accounts,
        "users": settings.users,
        "jobs": settings.jobs,
        "nodes": len(snapshot.hosts) <= settings.nodes_max,
    }
    return [name for name, on in wanted.items() if on]


def compat_pages(reader: ClusterReader, settings: ExporterSettings) -> dict[str, CollectorRegistry]:
    """The pages of compatible names by their path."""
    pages = {}
    for name, families in COMPAT_PAGES.items():
        pages[f"/metrics/compat/{name}"] = registry = CollectorRegistry()
        registry.register(CompatCollector(reader, settings, families))
    return pages


def token_expiry(tokens: TokenSource | None, cluster: str) -> Metric:
    """When the exporter's token expires; without a value if it cannot be read or never expires."""
    metric = GaugeMetricFamily(
        f"{PREFIX}token_expiry_timestamp_seconds", "When the token of the exporter expires.", labels=("cluster",)
    )
    with contextlib.suppress(TokenError):
        if tokens is not None and (expires := read_claims(tokens.token()).expires) is not None:
            metric.add_metric([cluster], expires)
    return metric


async def main(
    settings: ExporterSettings, health: Health | None = None, *, companions: Iterable[Companion] = ()
) -> None:
    """Run the exporter, and companions that share its mirror, until cancelled."""
    clock = SystemClock()
    tokens = _tokens(settings)
    observed = ObservedMetrics(settings.series_max)
    requests = RequestCounts(observed)
    files = _tls_files(settings)
    tls = files.get if files else None
    async with contextlib.AsyncExitStack() as stack:
        client = SlurmClient(settings.slurm_rest_api, tokens, tls=tls, observe=requests.observe)
        await stack.enter_async_context(client)
        native = _native_metrics(settings, requests)
        if native is not None:
            await stack.enter_async_context(native)
        reader = ClusterReader(
            client, clock, cluster=settings.cluster, jobs_max=settings.jobs_max, observed=observed, native=native
        )
        collector = ClusterCollector(reader, settings, tokens)
        if health is not None:
            mirror = reader.mirror
            health.add_readiness_check("slurm", lambda: None if mirror.jobs.synced else "Slurm has not been read yet")
        pages = compat_pages(reader, settings)
        REGISTRY.register(collector)
        PAGES.update(pages)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reader.run())
                for companion in companions:
                    tasks.create_task(companion(client, reader.mirror))
        finally:
            REGISTRY.unregister(collector)
            for path in pages:
                del PAGES[path]


def _native_metrics(settings: ExporterSettings, requests: RequestCounts) -> NativeMetrics | None:
    address = settings.slurmctld_metrics
    if not address:
        return None
    if not address.startswith(("http://", "https://")):
        raise ExporterError(f"--slurmctld-metrics {address}: give the address of slurmctld as http://host:6817")
    return NativeMetrics(address, observe=requests.observe)


def _tokens(settings: ExporterSettings) -> TokenSource:
    tokens = configured_tokens(settings.token_file, settings.jwt_key_file, settings.slurm_user)
    if tokens is None:
        raise ExporterError("there is no token: set --token-file, --jwt-key-file, or SLURM_JWT_FILE in the environment")
    return tokens


def _tls_files(settings: ExporterSettings) -> TlsFiles | None:
    if not settings.ca_file:
        return None
    try:
        return trust_files(Path(settings.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ExporterError(f"--ca-file {settings.ca_file}: {error}") from error
