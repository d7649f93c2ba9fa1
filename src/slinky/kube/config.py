# SPDX-License-Identifier: Apache-2.0
"""Where the API server is and how to be let in: kubeconfig files, or the pod's own service account.

`find` looks where kubectl looks: an explicit path, `$KUBECONFIG` (several files merge, the first mention of a
name wins), the pod's service account, then `~/.kube/config`. The result, `Access`, is a plain value; nothing
is contacted here.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from slinky.kube.auth import BearerTokenFile, ExecSpec, ExecToken, NoToken, StaticBearerToken, Tokens
from slinky.kube.errors import Misconfigured
from slinky.kube.tls import NO_PEM, Pem

X = TypeVar("X")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """Everything needed to talk to one API server."""

    server: str
    tokens: Tokens
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
    """The access a program started here should use."""
    if path is not None:
        return from_kubeconfig([path], context)
    if listed := env.get("KUBECONFIG"):
        return from_kubeconfig([Path(part) for part in listed.split(os.pathsep) if part], context)
    if "KUBERNETES_SERVICE_HOST" in env and context is None:
        return in_cluster(env)
    return from_kubeconfig([Path(env.get("HOME", "/")) / ".kube" / "config"], context)


def in_cluster(env: Mapping[str, str] = os.environ, root: Path = SERVICE_ACCOUNT) -> Access:
    """The access of a pod, by its mounted service account."""
    try:
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
        namespace = (root / "namespace").read_text().strip()
    except (KeyError, OSError) as error:
        raise Misconfigured(f"not inside a pod with a service account: {error}") from error
    bracketed = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{bracketed}:{port}", BearerTokenFile(root / "token"), ca=Pem(root / "ca.crt"), namespace=namespace
    )


def from_kubeconfig(paths: list[Path], context: str | None = None) -> Access:
    """The access one context of a kubeconfig describes."""
    found = [(path, _read(path)) for path in paths if path.exists()]
    if not found:
        looked = ", ".join(map(str, paths))
        raise Misconfigured(f"no kubeconfig at {looked}; point KUBECONFIG at one")
    current = (text.get("current-context") for _, text in found)
    name = context or str(next(filter(None, current), ""))
    chosen, _ = _entry(found, "contexts", "context", name, _Context)
    cluster, here = _entry(found, "clusters", "cluster", chosen.cluster, _Cluster)
    user, home = _entry(found, "users", "user", chosen.user, _User) if chosen.user else (_User(), Path())
    return Access(
        cluster.server.rstrip("/"),
        _tokens(user, cluster, home),
        ca=_pem(here, cluster.certificate_authority, cluster.certificate_authority_data),
        certificate=_pem(home, user.certificate, user.certificate_data),
        key=_pem(home, user.key, user.key_data),
        namespace=chosen.namespace or "default",
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        text = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    if not isinstance(text, dict):
        raise Misconfigured(f"{path} is not a kubeconfig")
    return text


def _entry(
    found: list[tuple[Path, dict[str, Any]]], section: str, inner: str, name: str, shape: type[X]
) -> tuple[X, Path]:
    """The named entry, and the folder its relative paths start from."""
    for path, text in found:
        for entry in text.get(section) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                try:
                    return msgspec.convert(entry.get(inner) or {}, shape), path.parent
                except msgspec.ValidationError as error:
                    raise Misconfigured(f"{path}: {inner} {name!r}: {error}") from error
    raise Misconfigured(f"no {inner} {name!r} in {', '.join(str(path) for path, _ in found)}")


def _pem(home: Path, file: str, data: str) -> Pem:
    if data:
        return Pem(data=base64.b64decode(data))
    return Pem(path=home / file) if file else NO_PEM


def _placed(spec: ExecSpec, home: Path) -> ExecSpec:
    """A program named by a relative path is beside its kubeconfig; a bare name is looked up in PATH."""
    if "/" not in spec.command:
        return spec
    return msgspec.structs.replace(spec, command=str(home / spec.command))


def _tokens(user: _User, cluster: _Cluster, home: Path) -> Tokens:
    if user.token_file:
        return BearerTokenFile(home / user.token_file)
    if user.token:
        return StaticBearerToken(user.token)
    if user.exec:
        return ExecToken(_placed(user.exec, home), {"server": cluster.server})
    return NoToken()
