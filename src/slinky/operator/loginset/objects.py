# SPDX-License-Identifier: Apache-2.0
"""Child objects of a LoginSet: host keys, sshd_config, a Service, a Deployment. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from slinky.api.controller import Controller
from slinky.api.loginset import LOGIN_SETS, DeploymentRolling, DeploymentStrategy, LoginSet
from slinky.api.names import child_names, metadata, wellknown
from slinky.api.names.child_names import LOGIN
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES
from slinky.operator.build.child_metadata import child_manifest, pod_template
from slinky.operator.build.cluster_dns import conf_server
from slinky.operator.build.pod_parts import (
    Images,
    JsonObject,
    default_container,
    key_sources,
    memory_volume,
    mount,
    projected_volume,
    secret_source,
    service_spec,
)
from slinky.operator.build.sshd import KEY_TYPES, login_config, private_name, public_name
from slinky.operator.build.strategic_merge import check_types, merge

#: Copies the keys, because a volume cannot set the owner of its files. The script contains no text from a spec.
_INITCONF = 'for file in /mnt/slurm/*; do install -o 401 -g 401 -m 0600 "$file" /mnt/etc/slurm/; done'

#: The API server's defaults. The operator sets them itself, so that it can also remove them: a default that the server
#: has set would stay, and be rejected with the strategy type Recreate.
ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%"}


class LoginSetHashes(NamedTuple):
    """Digests of what a login host reads when it starts; a change rolls its pods."""

    slurm_key: str = ""
    host_keys: str = ""
    sshd: str = ""
    sssd: str = ""


def _child(login_set: LoginSet, resource: Any, name: str, **sections: Any) -> JsonObject:
    return child_manifest(LOGIN_SETS, login_set, LOGIN, resource, Key(login_set.metadata.namespace, name), **sections)


def wanted_image(login_set: LoginSet, images: Images) -> str:
    """Return the image of login hosts that the spec asks for."""
    return str(login_set.spec.login.get("image") or images.image_for("login"))


def with_image(login_set: LoginSet, image: str) -> LoginSet:
    """Return the LoginSet with another image."""
    spec = msgspec.structs.replace(login_set.spec, login={**login_set.spec.login, "image": image})
    return msgspec.structs.replace(login_set, spec=spec)


def with_replicas(login_set: LoginSet, replicas: int) -> LoginSet:
    """Return the LoginSet with another number of pods."""
    return msgspec.structs.replace(login_set, spec=msgspec.structs.replace(login_set.spec, replicas=replicas))


def manifests(
    login_set: LoginSet, controller: Controller | None, hashes: LoginSetHashes, images: Images, domain: str
) -> tuple[tuple[Resource[Any], JsonObject], ...]:
    """Return the manifests to apply, in order; the host keys are separate, because they are created only once.

    Raises `Blocked` if the Controller does not exist.
    """
    if controller is None:
        raise Blocked("ControllerMissing", f"there is no Controller {login_set.spec.controller_ref.name}; create it")
    return (
        (CONFIG_MAPS, ssh_config(login_set)),
        (SERVICES, service(login_set)),
        (DEPLOYMENTS, deployment(login_set, controller, hashes, images, domain)),
    )


def host_key_secret(login_set: LoginSet, files: Mapping[str, bytes]) -> JsonObject:
    """Return the immutable Secret with the host keys."""
    data = {name: b64encode(content).decode() for name, content in files.items()}
    return {**_child(login_set, SECRETS, login_set.host_keys_name, data=data), "immutable": True}


def ssh_data(login_set: LoginSet) -> dict[str, str]:
    """Return the files of sshd: its configuration, and the keys that may log in as root."""
    return {
        wellknown.SSHD_CONFIG: login_config(login_set.spec.extra_sshd_config),
        wellknown.AUTHORIZED_KEYS: login_set.spec.root_ssh_authorized_keys,
    }


def ssh_config(login_set: LoginSet) -> JsonObject:
    """Return the ConfigMap with the files of sshd."""
    return _child(login_set, CONFIG_MAPS, login_set.ssh_config_name, data=ssh_data(login_set))


def service(login_set: LoginSet) -> JsonObject:
    """Return the Service for logins."""
    selector = LOGIN.selector(login_set.metadata.name)
    spec = service_spec(login_set.spec.service, selector, "ssh", wellknown.SSH_PORT, "login")
    return _child(login_set, SERVICES, login_set.service_name, metadata=login_set.spec.service.metadata, spec=spec)


def deployment(
    login_set: LoginSet, controller: Controller, hashes: LoginSetHashes, images: Images, domain: str
) -> JsonObject:
    """Return the Deployment of the login hosts."""
    annotations = {
        **default_container("login"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.SSH_HOST_KEYS_HASH: hashes.host_keys,
        metadata.SSHD_CONF_HASH: hashes.sshd,
        metadata.SSSD_CONF_HASH: hashes.sssd,
    }
    spec = {
        "replicas": login_set.spec.replicas,
        "revisionHistoryLimit": 0,
        "strategy": _strategy(login_set.spec.strategy),
        "selector": {"matchLabels": LOGIN.selector(login_set.metadata.name)},
        "template": pod_template(
            login_set,
            login_set.spec.template,
            _pod(login_set, controller, images, domain),
            LOGIN.labels(login_set.metadata.name),
            annotations,
        ),
    }
    return _child(login_set, DEPLOYMENTS, login_set.workload_name, metadata=login_set.spec.template.metadata, spec=spec)


def _strategy(strategy: DeploymentStrategy) -> JsonObject:
    if strategy.type == "Recreate":
        return {"type": strategy.type}
    rolling = {**ROLLING, **msgspec.to_builtins(strategy.rolling_update or DeploymentRolling())}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def _pod(login_set: LoginSet, controller: Controller, images: Images, domain: str) -> JsonObject:
    search = child_names.long_address(controller.worker_service_name, login_set.metadata.namespace, domain)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsConfig": {"searches": [search]},
        "initContainers": [_initconf(login_set, images)],
        "containers": [_login(login_set, controller, images)],
        "volumes": list(_volumes(login_set, controller)),
    }


def _initconf(login_set: LoginSet, images: Images) -> JsonObject:
    built = {
        "name": "initconf",
        "image": login_set.spec.login.get("image") or images.image_for("login"),
        "command": ["/bin/sh", "-c", _INITCONF],
        "volumeMounts": [
            mount("slurm-config", "/mnt/slurm", read_only=True),
            mount(wellknown.ETC_VOLUME, "/mnt/etc/slurm"),
        ],
    }
    return merge(built, login_set.spec.initconf)


def _login(login_set: LoginSet, controller: Controller, images: Images) -> JsonObject:
    built = {
        "name": "login",
        "image": images.image_for("login"),
        "env": [{"name": "SACKD_OPTIONS", "value": f"--conf-server {conf_server(controller)}"}],
        "ports": _ports(login_set),
        "readinessProbe": {"exec": {"command": ["test", "-S", "/run/slurm/sack.socket"]}, "periodSeconds": 5},
        "securityContext": {"capabilities": {"add": ["AUDIT_WRITE", "SYS_CHROOT"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(_mounts()),
    }
    return merge(built, login_set.spec.login)


def _ports(login_set: LoginSet) -> list[JsonObject]:
    """Return the port of sshd, unless the spec has a port of that name."""
    check_types(login_set.spec.login)
    if any(port.get("name") == "login" for port in login_set.spec.login.get("ports") or ()):
        return []
    return [{"name": "login", "containerPort": wellknown.SSH_PORT, "protocol": "TCP"}]


def _mounts() -> Iterable[JsonObject]:
    yield mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True)
    yield mount("sackd-dir", "/run/slurm")
    for key_type in KEY_TYPES:
        for name in (private_name(key_type), public_name(key_type)):
            yield mount("ssh-host-keys", f"/etc/ssh/{name}", read_only=True, sub_path=name)
    yield mount("ssh-config", f"/etc/ssh/{wellknown.SSHD_CONFIG}", read_only=True, sub_path=wellknown.SSHD_CONFIG)
    authorized = wellknown.AUTHORIZED_KEYS
    yield mount("ssh-config", f"/root/.ssh/{authorized}", read_only=True, sub_path=authorized)
    yield mount("sssd-conf", f"/etc/sssd/{wellknown.SSSD_CONF}", read_only=True, sub_path=wellknown.SSSD_CONF)


def _volumes(login_set: LoginSet, controller: Controller) -> Iterable[JsonObject]:
    yield memory_volume(wellknown.ETC_VOLUME)
    yield memory_volume("sackd-dir")
    yield projected_volume("slurm-config", 0o600, key_sources(controller.spec.slurm_key_ref))
    items = [
        {"key": name, "path": name, "mode": mode}
        for key_type in KEY_TYPES
        for name, mode in ((private_name(key_type), 0o600), (public_name(key_type), 0o644))
    ]
    yield {"name": "ssh-host-keys", "secret": {"secretName": login_set.host_keys_name, "items": items}}
    yield {"name": "ssh-config", "configMap": {"name": login_set.ssh_config_name, "defaultMode": 0o600}}
    sssd = login_set.spec.sssd_conf_ref
    yield projected_volume("sssd-conf", 0o600, [secret_source(sssd.name, sssd.key, wellknown.SSSD_CONF)])
