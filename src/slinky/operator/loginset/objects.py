# SPDX-License-Identifier: Apache-2.0
"""What a LoginSet is made of: host keys, sshd_config, a Service, a Deployment. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from slinky.api.controller import Controller
from slinky.api.loginset import LOGIN_SETS, DeploymentRolling, DeploymentStrategy, LoginSet
from slinky.api.names import child_names, metadata, wellknown
from slinky.api.names.child_names import LOGIN
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES
from slinky.operator.build.addresses import conf_server
from slinky.operator.build.child_metadata import framed, pod_template
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import (
    Piece,
    default_container,
    key_sources,
    memory,
    mount,
    projected,
    secret_source,
    service_spec,
)
from slinky.operator.build.sshd import login_config
from slinky.operator.build.strategic_merge import merged
from slinky.operator.loginset.hostkeys import KINDS, private_name, public_name

#: A constant; nothing a person writes is part of it. Volumes cannot give files an owner, so they are copied.
_INITCONF = 'for file in /mnt/slurm/*; do install -o 401 -g 401 -m 0600 "$file" /mnt/etc/slurm/; done'

#: What the server would fill in. Said by us it is ours to take back; otherwise it would stay, and be refused beside
#: another type.
ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%"}


class LoginSetHashes(NamedTuple):
    """Digests of what a running login host has read."""

    slurm_key: str = ""
    host_keys: str = ""
    sshd: str = ""
    sssd: str = ""


def _own(of: LoginSet, resource: Any, name: str, **sections: Any) -> Piece:
    return framed(LOGIN_SETS, of, LOGIN, resource, Key(of.metadata.namespace, name), **sections)


def host_key_secret(of: LoginSet, files: Mapping[str, bytes]) -> Piece:
    """The host keys; nobody can change them by accident."""
    data = {name: b64encode(content).decode() for name, content in files.items()}
    return {**_own(of, SECRETS, of.host_keys_name, data=data), "immutable": True}


def ssh_data(of: LoginSet) -> dict[str, str]:
    """The files of sshd."""
    return {
        wellknown.SSHD_CONFIG: login_config(of.spec.extra_sshd_config),
        wellknown.AUTHORIZED_KEYS: of.spec.root_ssh_authorized_keys,
    }


def ssh_config(of: LoginSet) -> Piece:
    """sshd_config and root's authorized_keys."""
    return _own(of, CONFIG_MAPS, of.ssh_config_name, data=ssh_data(of))


def service(of: LoginSet) -> Piece:
    """Where people log in."""
    selector = LOGIN.selector(of.metadata.name)
    spec = service_spec(of.spec.service, selector, "ssh", wellknown.SSH_PORT, "login")
    return _own(of, SERVICES, of.service_name, metadata=of.spec.service.metadata, spec=spec)


def deployment(of: LoginSet, controller: Controller, hashes: LoginSetHashes, images: Images, domain: str) -> Piece:
    """The login pods."""
    annotations = {
        **default_container("login"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.SSH_HOST_KEYS_HASH: hashes.host_keys,
        metadata.SSHD_CONF_HASH: hashes.sshd,
        metadata.SSSD_CONF_HASH: hashes.sssd,
    }
    spec = {
        "replicas": of.spec.replicas,
        "revisionHistoryLimit": 0,
        "strategy": _strategy(of.spec.strategy),
        "selector": {"matchLabels": LOGIN.selector(of.metadata.name)},
        "template": pod_template(
            of,
            of.spec.template,
            _pod(of, controller, images, domain),
            LOGIN.labels(of.metadata.name),
            annotations,
        ),
    }
    return _own(of, DEPLOYMENTS, of.workload_name, metadata=of.spec.template.metadata, spec=spec)


def _strategy(asked: DeploymentStrategy) -> Piece:
    if asked.type == "Recreate":
        return {"type": asked.type}
    rolling = {**ROLLING, **msgspec.to_builtins(asked.rolling_update or DeploymentRolling())}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def _pod(of: LoginSet, controller: Controller, images: Images, domain: str) -> Piece:
    search = child_names.long_address(controller.worker_service_name, of.metadata.namespace, domain)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": {"searches": [search]},
        "initContainers": [_initconf(of, images)],
        "containers": [_login(of, controller, images)],
        "volumes": list(_volumes(of, controller)),
    }


def _initconf(of: LoginSet, images: Images) -> Piece:
    built = {
        "name": "initconf",
        "image": of.spec.login.get("image") or images.of("login"),
        "command": ["/bin/sh", "-c", _INITCONF],
        "volumeMounts": [
            mount("slurm-config", "/mnt/slurm", read_only=True),
            mount(wellknown.ETC_VOLUME, "/mnt/etc/slurm"),
        ],
    }
    return merged(built, of.spec.initconf)


def _login(of: LoginSet, controller: Controller, images: Images) -> Piece:
    built = {
        "name": "login",
        "image": images.of("login"),
        "env": [{"name": "SACKD_OPTIONS", "value": f"--conf-server {conf_server(controller)}"}],
        "ports": _ports(of),
        "readinessProbe": {"exec": {"command": ["test", "-S", "/run/slurm/sack.socket"]}, "periodSeconds": 5},
        "securityContext": {"capabilities": {"add": ["AUDIT_WRITE", "SYS_CHROOT"]}},
        "volumeMounts": list(_mounts()),
    }
    return merged(built, of.spec.login)


def _ports(of: LoginSet) -> list[Piece]:
    """A person's own port of that name replaces ours."""
    if any(port.get("name") == "login" for port in of.spec.login.get("ports") or ()):
        return []
    return [{"name": "login", "containerPort": wellknown.SSH_PORT, "protocol": "TCP"}]


def _mounts() -> Iterable[Piece]:
    yield mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True)
    yield mount("sackd-dir", "/run/slurm")
    for kind in KINDS:
        for name in (private_name(kind), public_name(kind)):
            yield mount("ssh-host-keys", f"/etc/ssh/{name}", read_only=True, sub_path=name)
    yield mount("ssh-config", f"/etc/ssh/{wellknown.SSHD_CONFIG}", read_only=True, sub_path=wellknown.SSHD_CONFIG)
    authorized = wellknown.AUTHORIZED_KEYS
    yield mount("ssh-config", f"/root/.ssh/{authorized}", read_only=True, sub_path=authorized)
    yield mount("sssd-conf", f"/etc/sssd/{wellknown.SSSD_CONF}", read_only=True, sub_path=wellknown.SSSD_CONF)


def _volumes(of: LoginSet, controller: Controller) -> Iterable[Piece]:
    yield memory(wellknown.ETC_VOLUME)
    yield memory("sackd-dir")
    yield projected("slurm-config", 0o600, key_sources(controller.spec.slurm_key_ref))
    items = [
        {"key": name, "path": name, "mode": mode}
        for kind in KINDS
        for name, mode in ((private_name(kind), 0o600), (public_name(kind), 0o644))
    ]
    yield {"name": "ssh-host-keys", "secret": {"secretName": of.host_keys_name, "items": items}}
    yield {"name": "ssh-config", "configMap": {"name": of.ssh_config_name, "defaultMode": 0o600}}
    sssd = of.spec.sssd_conf_ref
    yield projected("sssd-conf", 0o600, [secret_source(sssd.name, sssd.key, wellknown.SSSD_CONF)])
