# SPDX-License-Identifier: Apache-2.0
"""Manifests of small objects."""

from typing import Any


def config_map(namespace: str, name: str, data: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data or {}}


def pod(
    namespace: str,
    name: str,
    *,
    labels: dict[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    if containers is None:
        containers = [{"name": "main", "image": "localhost/none:0"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"schedulerName": "nobody", "containers": containers, **spec},
    }


def deployment(namespace: str, name: str, *, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "localhost/none:0"}]},
            },
        },
    }
