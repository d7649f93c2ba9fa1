# SPDX-License-Identifier: Apache-2.0
"""Builds the exporter from its parts and runs it. A scrape computes metrics from memory and asks Slurm nothing."""

import ssl
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from slinky.exporter import series
from slinky.exporter.cluster_reader import ClusterReader
from slinky.exporter.settings import ExporterSettings
from slinky.observe import ExplainedError, Health, SystemClock
from slinky.observe.metrics import REGISTRY
from slinky.slurm import SlurmClient, TokenSource, configured_tokens


class ExporterError(ExplainedError):
    """A setting of the exporter cannot be used."""


class ClusterCollector(Collector):
    """The metrics of one cluster, computed when they are scraped."""

    def __init__(self, reader: ClusterReader, settings: ExporterSettings) -> None:
        self._reader, self._settings = reader, settings

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the cluster."""
        snapshot = self._reader.snapshot()
        wanted = {
            "accounts": self._settings.accounts,
            "users": self._settings.users,
            "nodes": len(snapshot.hosts) <= self._settings.nodes_max,
        }
        yield from series.collect(snapshot, [name for name, on in wanted.items() if on], self._settings.series_max)
        yield from self._reader.history.collect()

    def describe(self) -> list[Metric]:
        """No metric is known before the cluster has been read."""
        return []


async def main(settings: ExporterSettings, health: Health | None = None) -> None:
    """Run the exporter until cancelled."""
    clock = SystemClock()
    async with SlurmClient(settings.slurm_rest_api, _tokens(settings), tls=_tls(settings)) as client:
        reader = ClusterReader(client, clock, cluster=settings.cluster, jobs_max=settings.jobs_max)
        collector = ClusterCollector(reader, settings)
        if health is not None:
            mirror = reader.mirror
            health.add_readiness_check("slurm", lambda: None if mirror.jobs.synced else "Slurm has not been read yet")
        REGISTRY.register(collector)
        try:
            await reader.run()
        finally:
            REGISTRY.unregister(collector)


def _tokens(settings: ExporterSettings) -> TokenSource:
    tokens = configured_tokens(settings.token_file, settings.jwt_key_file, settings.slurm_user)
    if tokens is None:
        raise ExporterError("there is no token: set --token-file, --jwt-key-file, or SLURM_JWT_FILE in the environment")
    return tokens


def _tls(settings: ExporterSettings) -> ssl.SSLContext | None:
    if not settings.ca_file:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ExporterError(f"--ca-file {settings.ca_file}: {error}") from error
