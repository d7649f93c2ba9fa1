# SPDX-License-Identifier: Apache-2.0
"""Small views for tests."""

from typing import Any

import msgspec

from slinky.kube import ConfigMap, ObjectMeta


def config_map(
    name: str,
    version: int,
    *,
    data: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    uid: str = "",
) -> ConfigMap:
    meta = ObjectMeta(name, "ns", uid or f"uid-{name}", str(version), labels=labels or {})
    return ConfigMap(meta, data or {})


def event(kind: str, name: str, version: int, **rest: Any) -> bytes:
    """One line of a watch, as the API server sends it."""
    body = {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}}
    return msgspec.json.encode({"type": kind, "object": body | rest}) + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    notes = {"k8s.io/initial-events-end": "true"} if end else {}
    meta = {"resourceVersion": str(version), "annotations": notes, "creationTimestamp": None}
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": meta}}) + b"\n"


def failure(code: int, reason: str, message: str = "") -> bytes:
    status = {"kind": "Status", "metadata": {}, "code": code, "reason": reason, "message": message}
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
