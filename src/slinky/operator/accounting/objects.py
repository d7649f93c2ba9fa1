# SPDX-License-Identifier: Apache-2.0
"""What an Accounting is made of: a Service, a Secret with slurmdbd.conf, a StatefulSet. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMDBD
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS
from slinky.operator.build.child_metadata import framed, pod_template
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import (
    PATIENT,
    DaemonHashes,
    Piece,
    default_container,
    jwt_sources,
    key_sources,
    memory,
    mount,
    projected,
    secret_source,
    service_spec,
    tcp_probe,
)
from slinky.operator.build.strategic_merge import merged

RUN_AS = {"runAsNonRoot": True, "runAsUser": wellknown.SLURM_ID, "runAsGroup": wellknown.SLURM_ID}


def _own(of: Accounting, resource: Any, name: str, **sections: Any) -> Piece:
    return framed(ACCOUNTINGS, of, SLURMDBD, resource, Key(of.metadata.namespace, name), **sections)


def service(of: Accounting) -> Piece:
    """Where slurmctld finds slurmdbd."""
    selector = SLURMDBD.selector(of.metadata.name)
    spec = service_spec(of.spec.service, selector, "slurmdbd", wellknown.SLURMDBD_PORT, "slurmdbd")
    return _own(of, SERVICES, of.service_name, metadata=of.spec.service.metadata, spec=spec)


def config_secret(of: Accounting, files: Mapping[str, str], digest: str) -> Piece:
    """slurmdbd.conf, with the password in it, and what stands beside it."""
    data = {name: b64encode(text.encode()).decode() for name, text in files.items()}
    made = _own(of, SECRETS, of.config_name, data=data)
    made["metadata"]["annotations"][metadata.SLURMDBD_CONF_HASH] = digest
    return made


def stateful_set(of: Accounting, files: Sequence[str], hashes: DaemonHashes, images: Images) -> Piece:
    """The slurmdbd pod, with the `files` of its configuration."""
    annotations = {
        **default_container("slurmdbd"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.JWT_KEY_HASH: hashes.jwt_key,
        metadata.SLURMDBD_CONF_HASH: hashes.config,
    }
    labels = SLURMDBD.labels(of.metadata.name)
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 0,
        "podManagementPolicy": "Parallel",
        "serviceName": of.service_name,
        "selector": {"matchLabels": SLURMDBD.selector(of.metadata.name)},
        "template": pod_template(of, of.spec.template, _pod(of, files, images), labels, annotations),
    }
    return _own(of, STATEFUL_SETS, of.workload_name, metadata=of.spec.template.metadata, spec=spec)


def _pod(of: Accounting, files: Sequence[str], images: Images) -> Piece:
    return {
        "automountServiceAccountToken": False,
        "securityContext": {**RUN_AS, "fsGroup": wellknown.SLURM_ID},
        "containers": [_slurmdbd(of, images)],
        # slurmdbd insists that nobody else can read its file, which a volume shared by group would allow.
        "initContainers": [merged(_initconf(images), {"image": of.spec.slurmdbd.get("image")})],
        "volumes": [projected("slurm-config", 0o640, _sources(of, files)), memory(wellknown.ETC_VOLUME), memory("run")],
    }


def _initconf(images: Images) -> Piece:
    script = f"cp /mnt/slurm/* {wellknown.ETC}/ && chmod 0600 {wellknown.ETC}/*"
    return {
        "name": "initconf",
        "image": images.of("slurmdbd"),
        "command": ["/bin/sh", "-c", script],
        "securityContext": RUN_AS,
        "volumeMounts": [
            mount("slurm-config", "/mnt/slurm", read_only=True),
            mount(wellknown.ETC_VOLUME, wellknown.ETC),
        ],
    }


def _slurmdbd(of: Accounting, images: Images) -> Piece:
    built = {
        "name": "slurmdbd",
        "image": images.of("slurmdbd"),
        "ports": [{"name": "slurmdbd", "containerPort": wellknown.SLURMDBD_PORT, "protocol": "TCP"}],
        # The first start converts the database, which can take many minutes: only readiness is asked early.
        "startupProbe": tcp_probe("slurmdbd", periodSeconds=10, failureThreshold=360),
        "livenessProbe": tcp_probe("slurmdbd", **PATIENT),
        "readinessProbe": tcp_probe("slurmdbd", periodSeconds=5),
        "securityContext": RUN_AS,
        # What the database answered is in the end of its output, and so in the pod's status and our conditions.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True), mount("run", "/run")],
    }
    return merged(built, of.spec.slurmdbd)


def _sources(of: Accounting, files: Sequence[str]) -> Iterable[Piece]:
    yield from (secret_source(of.config_name, name, name) for name in files)
    yield from key_sources(of.spec.slurm_key_ref)
    yield from jwt_sources(of.spec.jwt_key)
