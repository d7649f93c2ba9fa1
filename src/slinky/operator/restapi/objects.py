# SPDX-License-Identifier: Apache-2.0
"""Child objects of a RestApi: a Service and a Deployment. Pure.

slurmrestd cannot fetch its configuration from slurmctld, so it mounts slurm.conf; a changed file or key rolls the pods.
"""

from typing import Any

import msgspec

from slinky.api.controller import Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.errors import Blocked
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import DEPLOYMENTS, SERVICES
from slinky.operator.build.child_metadata import child_manifest, pod_template
from slinky.operator.build.pod_parts import (
    LIVENESS,
    DaemonHashes,
    Images,
    JsonObject,
    config_source,
    default_container,
    mount,
    pod_run_as,
    projected_volume,
    run_as,
    service_spec,
    tcp_probe,
)
from slinky.operator.build.sidecars import log_environment
from slinky.operator.build.strategic_merge import merge

SLURMRESTD_USER = wellknown.SLURMRESTD_ID


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
    return {
        "automountServiceAccountToken": False,
        "securityContext": pod_run_as(SLURMRESTD_USER),
        "containers": [_slurmrestd(rest_api, controller, images)],
        "volumes": [projected_volume(wellknown.ETC_VOLUME, 0o600, _sources(controller))],
    }


def _slurmrestd(rest_api: RestApi, controller: Controller, images: Images) -> JsonObject:
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
        "ports": [{"name": "slurmrestd", "containerPort": wellknown.SLURMRESTD_PORT, "protocol": "TCP"}],
        "startupProbe": tcp_probe("slurmrestd", periodSeconds=2, failureThreshold=30),
        "livenessProbe": tcp_probe("slurmrestd", **LIVENESS),
        "readinessProbe": tcp_probe("slurmrestd", periodSeconds=5),
        "securityContext": run_as(SLURMRESTD_USER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True)],
    }
    container = merge(built, rest_api.spec.slurmrestd)
    return {**container, "args": [*container["args"], f"0.0.0.0:{wellknown.SLURMRESTD_PORT}"]}


def _sources(controller: Controller) -> list[JsonObject]:
    """Return slurm.conf alone: slurmrestd passes on the token of each request and needs no key of the cluster."""
    return [config_source(controller.config_name, wellknown.SLURM_CONF)]
