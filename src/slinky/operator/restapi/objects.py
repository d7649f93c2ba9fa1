# SPDX-License-Identifier: Apache-2.0
"""Child objects of a RestApi: a Service and a Deployment. Pure.

slurmrestd cannot fetch its configuration from slurmctld, so it mounts slurm.conf; a changed file or key rolls the pods.
With TLS, slurmrestd listens on the loopback address, and a container in front of it terminates TLS. A renewed
certificate does not roll the pods, because that container reads it again.
"""

from typing import Any

import msgspec

from slinky.api.controller import Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.tls import CERTIFICATE, PRIVATE_KEY
from slinky.kube.types import Key
from slinky.kube.views import DEPLOYMENTS, SERVICES
from slinky.operator.build.child_metadata import child_manifest, pod_template
from slinky.operator.build.pod_parts import (
    LIVENESS,
    STARTUP,
    DaemonHashes,
    Images,
    JsonObject,
    config_source,
    default_container,
    http_probe,
    mount,
    pod_run_as,
    projected_volume,
    run_as,
    secret_source,
    service_spec,
    tcp_probe,
)
from slinky.operator.build.sidecars import log_environment
from slinky.operator.build.strategic_merge import merge

SLURMRESTD_USER = wellknown.SLURMRESTD_ID
TLS_PROXY = "tls-proxy"
TLS_VOLUME, TLS_FOLDER = "slurmrestd-tls", "/run/tls"


def _child(rest_api: RestApi, resource: Any, name: str, **sections: Any) -> JsonObject:
    return child_manifest(REST_APIS, rest_api, SLURMRESTD, resource, Key(rest_api.metadata.namespace, name), **sections)


def manifests(
    rest_api: RestApi, controller: Controller | None, hashes: DaemonHashes, images: Images
) -> tuple[tuple[Resource[Any], JsonObject], ...]:
    """Return the manifests to apply, in order. Raises `Blocked` if the Controller does not exist."""
    if controller is None:
        raise Blocked("ControllerMissing", f"there is no Controller {rest_api.spec.controller_ref.name}; create it")
    return (
        (SERVICES, service(rest_api)),
        (DEPLOYMENTS, deployment(rest_api, controller, hashes, images)),
    )


def wanted_image(rest_api: RestApi, images: Images) -> str:
    """Return the image of slurmrestd that the spec asks for."""
    return str(rest_api.spec.slurmrestd.get("image") or images.image_for("slurmrestd"))


def with_image(rest_api: RestApi, image: str) -> RestApi:
    """Return the RestApi with another image."""
    spec = msgspec.structs.replace(rest_api.spec, slurmrestd={**rest_api.spec.slurmrestd, "image": image})
    return msgspec.structs.replace(rest_api, spec=spec)


def with_replicas(rest_api: RestApi, replicas: int) -> RestApi:
    """Return the RestApi with another number of pods."""
    return msgspec.structs.replace(rest_api, spec=msgspec.structs.replace(rest_api.spec, replicas=replicas))


def service(rest_api: RestApi) -> JsonObject:
    """Return the Service of slurmrestd."""
    selector = SLURMRESTD.selector(rest_api.metadata.name)
    spec = service_spec(rest_api.spec.service, selector, "slurmrestd", wellknown.SLURMRESTD_PORT, "slurmrestd")
    return _child(rest_api, SERVICES, rest_api.service_name, metadata=rest_api.spec.service.metadata, spec=spec)


def deployment(rest_api: RestApi, controller: Controller, hashes: DaemonHashes, images: Images) -> JsonObject:
    """Return the Deployment of slurmrestd."""
    annotations = {
        **default_container("slurmrestd"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.SLURM_CONFIG_HASH: hashes.config,
    }
    labels, template = SLURMRESTD.labels(rest_api.metadata.name), rest_api.spec.template
    spec = {
        "replicas": rest_api.spec.replicas,
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": SLURMRESTD.selector(rest_api.metadata.name)},
        "template": pod_template(
            rest_api, rest_api.spec.template, _pod(rest_api, controller, images), labels, annotations
        ),
    }
    return _child(rest_api, DEPLOYMENTS, rest_api.workload_name, metadata=template.metadata, spec=spec)


def _pod(rest_api: RestApi, controller: Controller, images: Images) -> JsonObject:
    tls = rest_api.spec.tls.enabled
    volumes = [projected_volume(wellknown.ETC_VOLUME, 0o600, _sources(controller))]
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": pod_run_as(SLURMRESTD_USER),
        "containers": [_slurmrestd(rest_api, controller, images)],
        "volumes": [*volumes, _tls_volume(rest_api)] if tls else volumes,
    }
    return {**pod, "initContainers": [_tls_proxy(rest_api, images)]} if tls else pod


def _slurmrestd(rest_api: RestApi, controller: Controller, images: Images) -> JsonObject:
    tls = rest_api.spec.tls.enabled
    built = {
        "name": "slurmrestd",
        "image": images.image_for("slurmrestd"),
        # Without slurmdbd every accounting request would fail after a timeout, so that plugin is not loaded.
        "args": [] if controller.spec.accounting_ref else ["-s", "openapi/slurmctld"],
        "env": [
            *log_environment(controller.cluster_name),
            {"name": "SLURM_JWT", "value": "daemon"},
            {"name": "SLURMRESTD_SECURITY", "value": "disable_unshare_files,disable_unshare_sysv"},
        ],
        **(_loopback_probes() if tls else _port_and_probes()),
        "securityContext": run_as(SLURMRESTD_USER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True)],
    }
    container = merge(built, rest_api.spec.slurmrestd)
    address = f"127.0.0.1:{wellknown.SLURMRESTD_LOOPBACK_PORT}" if tls else f"0.0.0.0:{wellknown.SLURMRESTD_PORT}"
    return {**container, "args": [*container["args"], address]}


def _port() -> JsonObject:
    return {"name": "slurmrestd", "containerPort": wellknown.SLURMRESTD_PORT, "protocol": "TCP"}


def _port_and_probes() -> JsonObject:
    return {
        "ports": [_port()],
        "startupProbe": tcp_probe("slurmrestd", periodSeconds=2, failureThreshold=30),
        "livenessProbe": tcp_probe("slurmrestd", **LIVENESS),
        "readinessProbe": tcp_probe("slurmrestd", periodSeconds=5),
    }


def _loopback_probes() -> JsonObject:
    """Return probes from inside the container: the kubelet does not reach the loopback address of a pod."""
    script = f": </dev/tcp/127.0.0.1/{wellknown.SLURMRESTD_LOOPBACK_PORT}"
    probe = {"exec": {"command": ["/bin/bash", "-c", script]}, "timeoutSeconds": 5}
    return {
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 30},
        "livenessProbe": {**probe, **LIVENESS},
    }


def _tls_proxy(rest_api: RestApi, images: Images) -> JsonObject:
    """Return the sidecar that terminates TLS. It starts before slurmrestd and ends after it; it is ready with it."""
    image = str(rest_api.spec.tls.proxy.get("image") or images.proxy)
    if not image:
        text = "there is no image for the container that terminates TLS"
        raise Blocked("ProxyImageMissing", f"{text}; set spec.tls.proxy.image or --proxy-image of the operator")
    built = {
        "name": TLS_PROXY,
        "image": image,
        "restartPolicy": "Always",
        "args": [
            "tls-proxy",
            f"--certificates={TLS_FOLDER}",
            f"--health-addr=:{wellknown.HEALTH_PORT}",
            *(["--required"] if rest_api.spec.tls.required else []),
        ],
        "ports": [_port()],
        "startupProbe": http_probe("/livez", wellknown.HEALTH_PORT, **STARTUP),
        "livenessProbe": http_probe("/livez", wellknown.HEALTH_PORT, timeoutSeconds=5, **LIVENESS),
        "readinessProbe": http_probe("/readyz", wellknown.HEALTH_PORT, timeoutSeconds=5, periodSeconds=5),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {**run_as(SLURMRESTD_USER), "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount(TLS_VOLUME, TLS_FOLDER, read_only=True)],
    }
    return merge(built, rest_api.spec.tls.proxy)


def _tls_volume(rest_api: RestApi) -> JsonObject:
    """Return the certificate and its key; the keys of the authorities stay in the Secret."""
    files = [secret_source(rest_api.tls_secret_name, name, name) for name in (CERTIFICATE, PRIVATE_KEY)]
    return projected_volume(TLS_VOLUME, 0o400, files)


def _sources(controller: Controller) -> list[JsonObject]:
    """Return slurm.conf alone: slurmrestd passes on the token of each request and needs no key of the cluster."""
    return [config_source(controller.config_name, wellknown.SLURM_CONF)]
