# SPDX-License-Identifier: Apache-2.0
"""The address and credentials of the API server, from kubeconfig files or from the service account of the pod.

`find_access` looks where kubectl looks: an explicit path, `$KUBECONFIG` (several files are merged; the first entry of a
name wins), the service account of the pod, then `~/.kube/config`. The result, `Access`, is a plain value; no request is
sent.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from slinky.kube.auth import BearerTokenFile, BearerTokenSource, ExecSpec, ExecToken, NoToken, StaticBearerToken
from slinky.kube.errors import Misconfigured
from slinky.kube.tls import NO_PEM, Pem

X = TypeVar("X")

#: The loader of libyaml takes a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """The address and credentials of one API server."""

    server: str
    tokens: BearerTokenSource
    ca: Pem = NO_PEM
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    namespace: str = "default"
    server_name: str | None = None
    insecure: bool = False


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None


class _User(msgspec.Struct, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    certificate: str = msgspec.field(default="", name="client-certificate")
    certificate_data: str = msgspec.field(default="", name="client-certificate-data")
    key: str = msgspec.field(default="", name="client-key")
    key_data: str = msgspec.field(default="", name="client-key-data")
    exec: ExecSpec | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str
    user: str = ""
    namespace: str = "default"


def find_access(path: Path | None = None, context: str | None = None, env: Mapping[str, str] = os.environ) -> Access:
    """The access that kubectl would use in this environment."""
    if path is not None:
        return from_kubeconfig([path], context)
    if listed := env.get("KUBECONFIG"):
        return from_kubeconfig([Path(part) for part in listed.split(os.pathsep) if part], context)
    if "KUBERNETES_SERVICE_HOST" in env and context is None:
        return in_cluster(env)
    return from_kubeconfig([Path(env.get("HOME", "/")) / ".kube" / "config"], context)


def in_cluster(env: Mapping[str, str] = os.environ, root: Path = SERVICE_ACCOUNT) -> Access:
    """The access of a pod through its mounted service account."""
    try:
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
        namespace = (root / "namespace").read_text().strip()
    except (KeyError, OSError) as error:
        raise Misconfigured(f"this process does not run in a pod with a service account: {error}") from error
    url_host = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{url_host}:{port}", BearerTokenFile(root / "token"), ca=Pem(root / "ca.crt"), namespace=namespace
    )


def from_kubeconfig(paths: list[Path], context: str | None = None) -> Access:
    """The access of one context of a kubeconfig; the current context if none is named."""
    configs = [(path, _read(path)) for path in paths if path.exists()]
    if not configs:
        searched = ", ".join(map(str, paths))
        raise Misconfigured(f"there is no kubeconfig at {searched}; set KUBECONFIG to the path of one")
    current = (config.get("current-context") for _, config in configs)
    name = context or str(next(filter(None, current), ""))
    selected, _ = _entry(configs, "contexts", "context", name, _Context)
    cluster, cluster_folder = _entry(configs, "clusters", "cluster", selected.cluster, _Cluster)
    user, user_folder = _entry(configs, "users", "user", selected.user, _User) if selected.user else (_User(), Path())
    return Access(
        cluster.server.rstrip("/"),
        _token_source(user, cluster, user_folder),
        ca=_pem(cluster_folder, cluster.certificate_authority, cluster.certificate_authority_data),
        certificate=_pem(user_folder, user.certificate, user.certificate_data),
        key=_pem(user_folder, user.key, user.key_data),
        namespace=selected.namespace or "default",
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.load(path.read_text(), _LOADER)  # noqa: S506 -- a safe loader
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise Misconfigured(f"{path} is not a kubeconfig")
    return config


def _entry(
    configs: list[tuple[Path, dict[str, Any]]], section: str, inner: str, name: str, entry_type: type[X]
) -> tuple[X, Path]:
    """The named entry, and the folder that its relative paths are relative to."""
    for path, config in configs:
        for entry in config.get(section) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                try:
                    return msgspec.convert(entry.get(inner) or {}, entry_type), path.parent
                except msgspec.ValidationError as error:
                    raise Misconfigured(f"{path}: {inner} {name!r}: {error}") from error
    entries = (entry for _, config in configs for entry in config.get(section) or () if isinstance(entry, dict))
    known = [str(entry.get("name")) for entry in entries]
    near = f"; did you mean {' or '.join(found)}?" if (found := get_close_matches(name, known)) else ""
    raise Misconfigured(f"there is no {inner} {name!r} in {', '.join(str(path) for path, _ in configs)}{near}")


def _pem(folder: Path, file: str, data: str) -> Pem:
    if data:
        return Pem(data=base64.b64decode(data))
    return Pem(path=folder / file) if file else NO_PEM


def _resolve_command(spec: ExecSpec, folder: Path) -> ExecSpec:
    """A relative path is relative to the kubeconfig; a plain name is looked up in PATH."""
    if "/" not in spec.command:
        return spec
    return msgspec.structs.replace(spec, command=str(folder / spec.command))


def _token_source(user: _User, cluster: _Cluster, folder: Path) -> BearerTokenSource:
    if user.token_file:
        return BearerTokenFile(folder / user.token_file)
    if user.token:
        return StaticBearerToken(user.token)
    if user.exec:
        return ExecToken(_resolve_command(user.exec, folder), {"server": cluster.server})
    return NoToken()
