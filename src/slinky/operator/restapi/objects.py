# SPDX-License-Identifier: Apache-2.0
"""What a RestApi is made of: a Service and a Deployment. Pure.

slurmrestd cannot fetch its configuration from slurmctld, so it mounts slurm.conf; a changed file or key rolls the pods.
"""

from typing import Any

from slinky.api.controller import Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.types import Key
from slinky.kube.views import DEPLOYMENTS, SERVICES
from slinky.operator.build.child_metadata import framed, pod_template
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import (
    PATIENT,
    DaemonHashes,
    Piece,
    config_source,
    default_container,
    key_sources,
    mount,
    projected,
    service_spec,
    tcp_probe,
)
from slinky.operator.build.strategic_merge import merged

NOBODY = wellknown.SLURMRESTD_ID
RUN_AS = {"runAsNonRoot": True, "runAsUser": NOBODY, "runAsGroup": NOBODY}


def _own(of: RestApi, resource: Any, name: str, **sections: Any) -> Piece:
    return framed(REST_APIS, of, SLURMRESTD, resource, Key(of.metadata.namespace, name), **sections)


def service(of: RestApi) -> Piece:
    """Where clients find slurmrestd."""
    selector = SLURMRESTD.selector(of.metadata.name)
    spec = service_spec(of.spec.service, selector, "slurmrestd", wellknown.SLURMRESTD_PORT, "slurmrestd")
    return _own(of, SERVICES, of.service_name, metadata=of.spec.service.metadata, spec=spec)


def deployment(of: RestApi, controller: Controller, hashes: DaemonHashes, images: Images) -> Piece:
    """The slurmrestd pods."""
    annotations = {
        **default_container("slurmrestd"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.SLURM_CONFIG_HASH: hashes.config,
    }
    labels = SLURMRESTD.labels(of.metadata.name)
    spec = {
        "replicas": of.spec.replicas,
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": SLURMRESTD.selector(of.metadata.name)},
        "template": pod_template(of, of.spec.template, _pod(of, controller, images), labels, annotations),
    }
    return _own(of, DEPLOYMENTS, of.workload_name, metadata=of.spec.template.metadata, spec=spec)


def _pod(of: RestApi, controller: Controller, images: Images) -> Piece:
    return {
        "automountServiceAccountToken": False,
        "securityContext": {**RUN_AS, "fsGroup": NOBODY},
        "containers": [_slurmrestd(of, controller, images)],
        "volumes": [projected(wellknown.ETC_VOLUME, 0o600, _sources(controller))],
    }


def _slurmrestd(of: RestApi, controller: Controller, images: Images) -> Piece:
    built = {
        "name": "slurmrestd",
        "image": images.of("slurmrestd"),
        # Without slurmdbd the accounting half would fail each request after a timeout.
        "args": [] if controller.spec.accounting_ref else ["-s", "openapi/slurmctld"],
        "env": [
            {"name": "SLURM_JWT", "value": "daemon"},
            {"name": "SLURMRESTD_SECURITY", "value": "disable_unshare_files,disable_unshare_sysv"},
        ],
        "ports": [{"name": "slurmrestd", "containerPort": wellknown.SLURMRESTD_PORT, "protocol": "TCP"}],
        "startupProbe": tcp_probe("slurmrestd", periodSeconds=2, failureThreshold=30),
        "livenessProbe": tcp_probe("slurmrestd", **PATIENT),
        "readinessProbe": tcp_probe("slurmrestd", periodSeconds=5),
        "securityContext": RUN_AS,
        "volumeMounts": [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True)],
    }
    found = merged(built, of.spec.slurmrestd)
    return {**found, "args": [*found["args"], f"0.0.0.0:{wellknown.SLURMRESTD_PORT}"]}


def _sources(controller: Controller) -> list[Piece]:
    return [config_source(controller.config_name, wellknown.SLURM_CONF), *key_sources(controller.spec.slurm_key_ref)]
