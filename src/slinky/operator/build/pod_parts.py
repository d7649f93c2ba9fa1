# SPDX-License-Identifier: Apache-2.0
"""Small pieces of pods and Services, each a function that shows what it makes. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.fields.refs import KeyRef
from slinky.api.fields.templates import ServicePart
from slinky.api.names import metadata, wellknown
from slinky.kube.errors import Blocked
from slinky.operator.keys import jwt_keyring, slurm_keyring

Piece = dict[str, Any]


def digest(data: Mapping[str, bytes | str]) -> str:
    """SHA-256 over values in the order of their keys; empty for nothing."""
    if not data:
        return ""
    found = hashlib.sha256()
    for _, value in sorted(data.items()):
        found.update(value.encode() if isinstance(value, str) else value)
    return found.hexdigest()


def hashed(content: bytes | str) -> str:
    """The digest of one thing; empty for nothing."""
    return digest({"": content}) if content else ""


class DaemonHashes(NamedTuple):
    """Digests of what a running daemon has read: keys, and its own configuration."""

    slurm_key: str = ""
    jwt_key: str = ""
    config: str = ""


def http_probe(path: str, port: str, **settings: int) -> Piece:
    """Asks a daemon's own port."""
    return {"httpGet": {"path": path, "port": port}, **settings}


def tcp_probe(port: str, **settings: int) -> Piece:
    """Connects to a port."""
    return {"tcpSocket": {"port": port}, **settings}


#: A daemon that has been silent for a minute is started again.
PATIENT = {"periodSeconds": 10, "failureThreshold": 6}
#: One that starts is looked at often, and given time: it may be waiting for another that starts.
STARTING = {"periodSeconds": 2, "failureThreshold": 150}


def secret_source(name: str, key: str, path: str, mode: int | None = None) -> Piece:
    """One key of a Secret as a file of a projected volume."""
    item = {"key": key, "path": path} | ({"mode": mode} if mode is not None else {})
    return {"secret": {"name": name, "items": [item]}}


def key_sources(ref: KeyRef | None) -> list[Piece]:
    """The slurm key, and during a rotation both, as every daemon mounts them."""
    if ref is None:
        return []
    items = [{"key": name, "path": name} for name in (wellknown.SLURM_KEY, slurm_keyring.SLURM_JWKS)]
    return [{"secret": {"name": slurm_keyring.name(ref), "items": items}}]


def jwt_sources(ref: KeyRef | None) -> list[Piece]:
    """The JWT key that tokens are checked with now."""
    return [secret_source(jwt_keyring.name(ref), wellknown.JWT_KEY, wellknown.JWT_KEY)] if ref else []


def config_source(name: str, *keys_: str, mode: int | None = None) -> Piece:
    """A ConfigMap, or some keys of it, as files of a projected volume."""
    items = [{"key": key, "path": key} | ({"mode": mode} if mode is not None else {}) for key in keys_]
    return {"configMap": {"name": name} | ({"items": items} if items else {})}


def projected(name: str, mode: int, sources: Iterable[Piece]) -> Piece:
    """A volume of files from several objects."""
    return {"name": name, "projected": {"defaultMode": mode, "sources": list(sources)}}


def memory(name: str) -> Piece:
    """An empty folder in memory."""
    return {"name": name, "emptyDir": {"medium": "Memory"}}


def mount(name: str, path: str, *, read_only: bool = False, sub_path: str = "") -> Piece:
    """A volume in a container."""
    found: Piece = {"name": name, "mountPath": path}
    if read_only:
        found["readOnly"] = True
    if sub_path:
        found["subPath"] = sub_path
    return found


def service_spec(part: ServicePart, selector: Mapping[str, str], name: str, port: int, target: int | str) -> Piece:
    """A Service: a person's spec with our selector and port; external addresses are dropped (CVE-2020-8554)."""
    asked = {key: value for key, value in part.spec.items() if key not in {"externalIPs", "selector", "ports"}}
    own: Piece = {"name": name, "port": part.port or port, "targetPort": target, "protocol": "TCP"}
    if part.node_port:
        own["nodePort"] = part.node_port
    theirs = part.spec.get("ports") or []
    if any(entry.get("name") == name or entry.get("port") == own["port"] for entry in theirs):
        text = f"port {name} ({own['port']}) of the Service is the operator's; set service.port and service.nodePort"
        raise Blocked("PortTaken", f"{text} instead of an entry in service.spec.ports")
    chosen = {**(part.spec.get("selector") or {}), **selector}
    return {**asked, "selector": chosen, "ports": [*theirs, own]}


def headless_spec(selector: Mapping[str, str], name: str, port: int) -> Piece:
    """A Service that only gives names to pods, ready or not."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(selector),
        "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"}],
    }


def default_container(name: str) -> dict[str, str]:
    """The annotation by which kubectl chooses a container."""
    return {metadata.DEFAULT_CONTAINER: name}
