# SPDX-License-Identifier: Apache-2.0
"""Child objects of an Accounting: a Service, a Secret with slurmdbd.conf, a StatefulSet. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slinky.api.accounting import ACCOUNTINGS, Accounting
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMDBD
from slinky.kube.types import Key
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS
from slinky.operator.build.child_metadata import child_manifest, pod_template
from slinky.operator.build.pod_parts import (
    LIVENESS,
    DaemonHashes,
    Images,
    JsonObject,
    default_container,
    jwt_sources,
    key_sources,
    memory_volume,
    mount,
    pod_run_as,
    projected_volume,
    run_as,
    secret_source,
    service_spec,
    tcp_probe,
)
from slinky.operator.build.strategic_merge import merge


def _child(accounting: Accounting, resource: Any, name: str, **sections: Any) -> JsonObject:
    return child_manifest(
        ACCOUNTINGS, accounting, SLURMDBD, resource, Key(accounting.metadata.namespace, name), **sections
    )


def service(accounting: Accounting) -> JsonObject:
    """Return the Service of slurmdbd."""
    selector = SLURMDBD.selector(accounting.metadata.name)
    spec = service_spec(accounting.spec.service, selector, "slurmdbd", wellknown.SLURMDBD_PORT, "slurmdbd")
    return _child(accounting, SERVICES, accounting.service_name, metadata=accounting.spec.service.metadata, spec=spec)


def config_secret(accounting: Accounting, files: Mapping[str, str], digest: str) -> JsonObject:
    """Return the Secret with slurmdbd.conf, which contains the password, and the files beside it."""
    data = {name: b64encode(text.encode()).decode() for name, text in files.items()}
    manifest = _child(accounting, SECRETS, accounting.config_name, data=data)
    manifest["metadata"]["annotations"][metadata.SLURMDBD_CONF_HASH] = digest
    return manifest


def wanted_image(accounting: Accounting, images: Images) -> str:
    """Return the image of slurmdbd that the spec asks for."""
    return str(accounting.spec.slurmdbd.get("image") or images.image_for("slurmdbd"))


def stateful_set(
    accounting: Accounting, files: Sequence[str], hashes: DaemonHashes, images: Images, version: str = ""
) -> JsonObject:
    """Return the StatefulSet of slurmdbd, which mounts the `files` of its configuration."""
    annotations = {
        **default_container("slurmdbd"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.JWT_KEY_HASH: hashes.jwt_key,
        metadata.SLURMDBD_CONF_HASH: hashes.config,
    }
    labels, template = SLURMDBD.labels(accounting.metadata.name), accounting.spec.template
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 0,
        "podManagementPolicy": "Parallel",
        "serviceName": accounting.service_name,
        "selector": {"matchLabels": SLURMDBD.selector(accounting.metadata.name)},
        "template": pod_template(
            accounting, accounting.spec.template, _pod(accounting, files, images), labels, annotations
        ),
    }
    manifest = _child(accounting, STATEFUL_SETS, accounting.workload_name, metadata=template.metadata, spec=spec)
    if version:
        manifest["metadata"]["annotations"][metadata.SLURM_VERSION] = version
    return manifest


def _pod(accounting: Accounting, files: Sequence[str], images: Images) -> JsonObject:
    return {
        "automountServiceAccountToken": False,
        "securityContext": pod_run_as(wellknown.SLURM_ID),
        "containers": [_slurmdbd(accounting, images)],
        # slurmdbd rejects a file that others can read, and a volume with an fsGroup is readable by the group.
        "initContainers": [merge(_initconf(images), {"image": accounting.spec.slurmdbd.get("image")})],
        "volumes": [
            projected_volume("slurm-config", 0o640, _sources(accounting, files)),
            memory_volume(wellknown.ETC_VOLUME),
            memory_volume("run"),
        ],
    }


def _initconf(images: Images) -> JsonObject:
    script = f"cp /mnt/slurm/* {wellknown.ETC}/ && chmod 0600 {wellknown.ETC}/*"
    return {
        "name": "initconf",
        "image": images.image_for("slurmdbd"),
        "command": ["/bin/sh", "-c", script],
        "securityContext": run_as(wellknown.SLURM_ID),
        "volumeMounts": [
            mount("slurm-config", "/mnt/slurm", read_only=True),
            mount(wellknown.ETC_VOLUME, wellknown.ETC),
        ],
    }


def _slurmdbd(accounting: Accounting, images: Images) -> JsonObject:
    built = {
        "name": "slurmdbd",
        "image": images.image_for("slurmdbd"),
        "ports": [{"name": "slurmdbd", "containerPort": wellknown.SLURMDBD_PORT, "protocol": "TCP"}],
        # The first start converts the database, which can take many minutes.
        "startupProbe": tcp_probe("slurmdbd", periodSeconds=10, failureThreshold=360),
        "livenessProbe": tcp_probe("slurmdbd", **LIVENESS),
        "readinessProbe": tcp_probe("slurmdbd", periodSeconds=5),
        "securityContext": run_as(wellknown.SLURM_ID),
        # The end of the output contains the error of the database; the operator reports it in conditions.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True), mount("run", "/run")],
    }
    return merge(built, accounting.spec.slurmdbd)


def _sources(accounting: Accounting, files: Sequence[str]) -> Iterable[JsonObject]:
    yield from (secret_source(accounting.config_name, name, name) for name in files)
    yield from key_sources(accounting.spec.slurm_key_ref)
    yield from jwt_sources(accounting.spec.jwt_key)
