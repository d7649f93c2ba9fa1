# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus that scrapes what a test serves and evaluates the rules that the charts deliver."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.support.waiting import eventually

from slinky.lab.kubernetes.bare_plane import WITH_US, free_port
from slinky.lab.prepare.inventory import ArtifactInventory


class PrometheusServer:
    """The HTTP API of a Prometheus."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str, **query: str) -> Any:
        """The data of an answer. Raises `AssertionError` with the message of Prometheus."""
        try:
            async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as response:
                answer = await response.json()
        except aiohttp.ClientError as error:
            raise AssertionError(f"Prometheus does not answer: {error}") from error
        assert answer["status"] == "success", f"{query}: {answer.get('error')}"
        return answer["data"]

    async def values(self, expression: str) -> list[float]:
        """The numbers that an expression has now; those that are not a number are left out."""
        data = await self.get("query", query=expression)
        samples = [data] if data["resultType"] == "scalar" else data["result"]
        numbers = [float(sample["value"][1]) for sample in samples]
        return [number for number in numbers if not math.isnan(number)]

    async def wait_values(self, expression: str, at_least: float | None = None) -> None:
        """Wait until an expression has a number, of at least this size."""

        async def has_values() -> bool:
            values = await self.values(expression)
            return bool(values) and (at_least is None or max(values) >= at_least)

        await eventually(has_values, expression)

    async def targets_up(self) -> bool:
        """Whether every target has been scraped."""
        targets = (await self.get("targets", state="active"))["activeTargets"]
        assert all(target["health"] != "down" for target in targets), [target["lastError"] for target in targets]
        return bool(targets) and all(target["health"] == "up" for target in targets)

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule with its state."""
        return [rule for group in (await self.get("rules"))["groups"] for rule in group["rules"]]

    async def alert_state(self, name: str) -> str:
        """The state of an alert: inactive, pending or firing."""
        (rule,) = [rule for rule in await self.rules() if rule["name"] == name]
        return str(rule["state"])


@contextlib.asynccontextmanager
async def prometheus_server(
    folder: Path, ports: Mapping[str, int], groups: Iterable[dict[str, Any]]
) -> AsyncIterator[PrometheusServer]:
    """A Prometheus that scrapes these ports of this machine, by job, and evaluates rules, both every second."""
    inventory, port = ArtifactInventory.of(), free_port()
    program = inventory.store.require(inventory.artifacts["prometheus"]) / "prometheus"
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
    jobs = [
        # As the ServiceMonitors of the charts have it.
        {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{number}"]}]}
        for name, number in ports.items()
    ]
    every_second = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every_second, "rule_files": ["rules.yaml"], "scrape_configs": jobs}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    log = (folder / "prometheus.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *WITH_US,
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=log,
        stderr=log,
    )
    try:
        async with aiohttp.ClientSession() as session:
            server = PrometheusServer(session, f"http://127.0.0.1:{port}")
            await eventually(server.targets_up, "a scrape of every target")
            yield server
    finally:
        process.kill()
        await process.wait()
        log.close()
