# SPDX-License-Identifier: Apache-2.0
"""Parts of pods and Services: images, digests, probes, volumes, mounts, Service specs. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.fields.refs import KeyRef
from slinky.api.fields.templates import ServicePart
from slinky.api.names import metadata, wellknown
from slinky.kube.errors import Blocked
from slinky.operator.build.strategic_merge import check_types
from slinky.operator.keyrings.jwt_keyring import JWT_KEYRING
from slinky.operator.keyrings.slurm_keyring import SLURM_JWKS, SLURM_KEYRING

JsonObject = dict[str, Any]


class Images(NamedTuple):
    """The images of containers that name none: a pattern such as `registry.example/{daemon}:26.05`, and our own."""

    pattern: str
    proxy: str = ""

    def image_for(self, daemon: str) -> str:
        """Return the image of a daemon."""
        return self.pattern.format(daemon=daemon)


def digest_values(data: Mapping[str, bytes | str]) -> str:
    """Return a SHA-256 digest over the values in the order of their keys; empty for an empty mapping."""
    if not data:
        return ""
    digest = hashlib.sha256()
    for _, value in sorted(data.items()):
        digest.update(value.encode() if isinstance(value, str) else value)
    return digest.hexdigest()


def digest_value(content: bytes | str) -> str:
    """Return the digest of one value; empty for an empty value."""
    return digest_values({"": content}) if content else ""


class DaemonHashes(NamedTuple):
    """Digests of what a daemon reads when it starts; a change rolls its pods."""

    slurm_key: str = ""
    jwt_key: str = ""
    config: str = ""


#: What the Pod Security Standard `restricted` demands of a container; daemons that run as a user comply with it.
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def run_as(user: int) -> JsonObject:
    """Return the security context of a container under the Pod Security Standard `restricted`."""
    return {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, **RESTRICTED}


def pod_run_as(user: int) -> JsonObject:
    """Return the security context of a pod under the Pod Security Standard `restricted`."""
    ids = {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {**ids, "seccompProfile": {"type": "RuntimeDefault"}}


def http_probe(path: str, port: str | int, **settings: int) -> JsonObject:
    """Return a probe that sends a GET request."""
    return {"httpGet": {"path": path, "port": port}, **settings}


def tcp_probe(port: str, **settings: int) -> JsonObject:
    """Return a probe that opens a connection."""
    return {"tcpSocket": {"port": port}, **settings}


#: Restart a daemon that has not answered for a minute.
LIVENESS = {"periodSeconds": 10, "failureThreshold": 6}
#: Probe a starting daemon often, and for five minutes: it may wait for another daemon.
STARTUP = {"periodSeconds": 2, "failureThreshold": 150}


def secret_source(name: str, key: str, path: str, mode: int | None = None) -> JsonObject:
    """Return one key of a Secret as a source of a projected volume."""
    item = {"key": key, "path": path} | ({"mode": mode} if mode is not None else {})
    return {"secret": {"name": name, "items": [item]}}


def key_sources(ref: KeyRef | None) -> list[JsonObject]:
    """Return the files of the slurm key ring, which every daemon mounts."""
    if ref is None:
        return []
    items = [{"key": name, "path": name} for name in (wellknown.SLURM_KEY, SLURM_JWKS)]
    return [{"secret": {"name": SLURM_KEYRING.secret_name(ref), "items": items}}]


def jwt_sources(ref: KeyRef | None) -> list[JsonObject]:
    """Return the JWT key that tokens are verified with."""
    return [secret_source(JWT_KEYRING.secret_name(ref), wellknown.JWT_KEY, wellknown.JWT_KEY)] if ref else []


def config_source(name: str, *keys_: str, mode: int | None = None) -> JsonObject:
    """Return a ConfigMap, or some keys of it, as a source of a projected volume."""
    items = [{"key": key, "path": key} | ({"mode": mode} if mode is not None else {}) for key in keys_]
    return {"configMap": {"name": name} | ({"items": items} if items else {})}


def projected_volume(name: str, mode: int, sources: Iterable[JsonObject]) -> JsonObject:
    """Return a volume with files from several objects."""
    return {"name": name, "projected": {"defaultMode": mode, "sources": list(sources)}}


def memory_volume(name: str) -> JsonObject:
    """Return an empty volume in memory."""
    return {"name": name, "emptyDir": {"medium": "Memory"}}


def mount(name: str, path: str, *, read_only: bool = False, sub_path: str = "") -> JsonObject:
    """Return a mount of a volume in a container."""
    volume_mount: JsonObject = {"name": name, "mountPath": path}
    if read_only:
        volume_mount["readOnly"] = True
    if sub_path:
        volume_mount["subPath"] = sub_path
    return volume_mount


def service_spec(part: ServicePart, selector: Mapping[str, str], name: str, port: int, target: int | str) -> JsonObject:
    """Return a Service spec: the person's spec with our selector and port.

    External addresses are dropped, because they could intercept traffic of others (CVE-2020-8554).
    """
    check_types(part.spec)
    spec = {key: value for key, value in part.spec.items() if key not in {"externalIPs", "selector", "ports"}}
    own: JsonObject = {"name": name, "port": part.port or port, "targetPort": target, "protocol": "TCP"}
    if part.node_port:
        own["nodePort"] = part.node_port
    others = part.spec.get("ports") or []
    if any(entry.get("name") == name or entry.get("port") == own["port"] for entry in others):
        text = f"port {name} ({own['port']}) of the Service is set by the operator"
        raise Blocked("PortTaken", f"{text}; use service.port and service.nodePort instead of service.spec.ports")
    return {**spec, "selector": {**(part.spec.get("selector") or {}), **selector}, "ports": [*others, own]}


def headless_spec(selector: Mapping[str, str], name: str, port: int) -> JsonObject:
    """Return the spec of a Service that gives DNS names to pods, ready or not."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": dict(selector),
        "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"}],
    }


def default_container(name: str) -> dict[str, str]:
    """Return the annotation that names the container kubectl uses by default."""
    return {metadata.DEFAULT_CONTAINER: name}
