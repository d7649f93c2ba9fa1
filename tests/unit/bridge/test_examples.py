# SPDX-License-Identifier: Apache-2.0
"""Admission accepts every example, and every example is for the bridge."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from slinky.bridge import names
from slinky.bridge.admission import rules
from slinky.bridge.config import BridgeSettings
from slinky.kube import AdmissionRequest, Quantity

EXAMPLES = Path(__file__).parents[3] / "examples/bridge"
MANIFESTS = {
    path.name: list(yaml.safe_load_all(path.read_text()))
    for path in sorted(EXAMPLES.glob("*.yaml"))
    if "values" not in path.name
}
#: The size of the cluster that `make demo` creates.
DEMO_NODES, DEMO_CPUS = 3, 2


def pods(result: Any) -> Iterator[dict[str, Any]]:
    """Every pod in an object: itself, or whatever template in it has containers."""
    if isinstance(result, dict):
        if "containers" in result.get("spec", {}):
            yield result
        else:
            yield from (pod for part in result.values() for pod in pods(part))
    elif isinstance(result, list):
        yield from (pod for part in result for pod in pods(part))


async def complaints(path: str, result: dict[str, Any]) -> tuple[str, ...]:
    async def no_labels(_: str) -> Mapping[str, str]:
        return {}

    given = {**result, "metadata": {"name": "x", "namespace": "ns", **result.get("metadata", {})}}
    ask = AdmissionRequest("u", operation="CREATE", namespace="ns", object=msgspec.Raw(json.dumps(given).encode()))
    reply = await rules.handlers(BridgeSettings(), no_labels)[path](ask)
    return (*(() if reply.allowed else (reply.message,)), *reply.warnings)


@pytest.mark.parametrize("documents", MANIFESTS.values(), ids=MANIFESTS)
async def test_an_example_is_admitted_without_warnings(documents: list[dict[str, Any]]) -> None:
    made = [pod for document in documents for pod in pods(document)]
    assert made
    for document in documents:
        assert await complaints(rules.OPTIONS, document) == ()
    for pod in made:
        assert pod["spec"]["schedulerName"] == names.SCHEDULER
        assert await complaints(rules.VALIDATE, pod) == ()


def replicas(result: dict[str, Any]) -> int:
    """How many pods an object creates at once."""
    spec = result.get("spec", {})
    if "replicatedJobs" in spec:
        return sum(part.get("replicas", 1) * replicas(part["template"]) for part in spec["replicatedJobs"])
    if "leaderWorkerTemplate" in spec:
        return int(spec.get("replicas", 1) * spec["leaderWorkerTemplate"]["size"])
    return int(spec.get("parallelism", 1))


@pytest.mark.parametrize("documents", MANIFESTS.values(), ids=MANIFESTS)
def test_an_example_fits_into_the_demo(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        requests = [
            Quantity.parse(container.get("resources", {}).get("requests", {}).get("cpu", "1"))
            for pod in pods(document)
            for container in pod["spec"]["containers"]
        ]
        if not requests:
            continue
        annotations = document["metadata"].get("annotations", {})
        shared = annotations.get(names.OPTION + "exclusive") == "false"
        per_node = DEMO_CPUS if shared else int(annotations.get(names.OPTION + "pods-per-node", "1"))
        assert replicas(document) <= per_node * DEMO_NODES
        # The worker, slurmctld and the bridge take a part of one CPU.
        assert max(requests).nano * per_node <= (DEMO_CPUS - 1) * Quantity.of(1).nano or replicas(document) == 1
