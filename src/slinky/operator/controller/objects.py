# SPDX-License-Identifier: Apache-2.0
"""What a Controller is made of: two Services, a ConfigMap, a StatefulSet, a ServiceMonitor. Pure.

The public Service selects by readiness and not by a label: in a pair of controllers only the active one answers
`/readyz`, so that the Service follows a failover whether or not this operator runs.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.accounting import Accounting
from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMCTLD
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SERVICES, STATEFUL_SETS
from slinky.operator.build import sidecars
from slinky.operator.build.child_metadata import framed, pod_template
from slinky.operator.build.images import Images
from slinky.operator.build.monitors import SERVICE_MONITORS
from slinky.operator.build.pod_parts import (
    PATIENT,
    STARTING,
    DaemonHashes,
    Piece,
    config_source,
    default_container,
    headless_spec,
    http_probe,
    jwt_sources,
    key_sources,
    memory,
    mount,
    projected,
    service_spec,
)
from slinky.operator.build.strategic_merge import merged
from slinky.operator.controller.config_generation import Generation
from slinky.operator.controller.files import Files

#: What slurmctld's metrics endpoints are, when nobody lists any.
METRICS_PATHS = ("/metrics/jobs", "/metrics/nodes", "/metrics/partitions", "/metrics/scheduler")
RUN_AS = {"runAsNonRoot": True, "runAsUser": wellknown.SLURM_ID, "runAsGroup": wellknown.SLURM_ID}


class Running(NamedTuple):
    """What slurmctld is to run: files, their digest, and what has to be remembered about them."""

    data: Mapping[str, str]
    digest: str = ""
    marks: Mapping[str, str] = {}


def _own(of: Controller, resource: Any, name: str, **sections: Any) -> Piece:
    return framed(CONTROLLERS, of, SLURMCTLD, resource, Key(of.metadata.namespace, name), **sections)


def service(of: Controller) -> Piece:
    """Where everybody reaches the active slurmctld."""
    spec = service_spec(
        of.spec.service,
        SLURMCTLD.selector(of.metadata.name),
        "slurmctld",
        wellknown.SLURMCTLD_PORT,
        "slurmctld",
    )
    return _own(of, SERVICES, of.service_name, metadata=of.spec.service.metadata, spec=spec)


def internal_service(of: Controller) -> Piece:
    """Gives each controller pod a name, ready or not."""
    spec = headless_spec(SLURMCTLD.selector(of.metadata.name), "slurmctld", wellknown.SLURMCTLD_PORT)
    return _own(of, SERVICES, of.internal_service_name, spec=spec)


def config_map(of: Controller, running: Running) -> Piece:
    """The files that slurmctld reads."""
    made = _own(of, CONFIG_MAPS, of.config_name, data=dict(running.data))
    made["metadata"]["annotations"].update(running.marks)
    return made


def generation(of: Controller, kept: Generation) -> Piece:
    """The record of one generation: its files, for ever the same, and what is known of them."""
    made = _own(of, CONFIG_MAPS, generation_name(of, kept.number), data=dict(kept.data), immutable=True)
    made["metadata"]["annotations"].update(
        {
            metadata.CONFIG_GENERATION: f"{kept.number}-{kept.digest}",
            metadata.CONFIG_VERDICT: kept.verdict.value,
            metadata.CONFIG_ERROR: kept.words[:1024],
        }
    )
    return made


def generation_name(of: Controller, number: int) -> str:
    """The ConfigMap of one generation."""
    return f"{of.config_name}-{number}"


def stateful_set(
    of: Controller, accounting: Accounting | None, hashes: DaemonHashes, files: Files, images: Images
) -> Piece:
    """The slurmctld pods."""
    spec: Piece = {
        "replicas": of.replicas,
        "revisionHistoryLimit": 0,
        "serviceName": of.internal_service_name,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "selector": {"matchLabels": SLURMCTLD.selector(of.metadata.name)},
        "template": pod_template(
            of,
            of.spec.template,
            _pod(of, accounting, files, images),
            SLURMCTLD.labels(of.metadata.name),
            _annotations(of, hashes),
        ),
    }
    if of.spec.ha.enabled:
        # A standby is never ready; in ordered management the one after it would not be made, and in an update of the
        # StatefulSet's own the one before it not replaced (see `turns`).
        spec["podManagementPolicy"] = "Parallel"
        spec["updateStrategy"] = {"type": "OnDelete"}
    if of.spec.persistence.enabled and not of.spec.persistence.existing_claim:
        spec["volumeClaimTemplates"] = [
            {"metadata": {"name": wellknown.STATE_VOLUME}, "spec": of.spec.persistence.claim_spec()}
        ]
    return _own(of, STATEFUL_SETS, of.workload_name, metadata=of.spec.template.metadata, spec=spec)


def service_monitor(of: Controller) -> Piece:
    """Tells Prometheus what to scrape."""
    asked = of.spec.metrics.service_monitor
    paths = [(e.path, e.interval, e.scrape_timeout) for e in asked.endpoints] or [(p, "", "") for p in METRICS_PATHS]
    endpoints = [
        {"port": "slurmctld", "scheme": "http", "path": path}
        | _set(interval=interval or asked.interval, scrapeTimeout=timeout or asked.scrape_timeout)
        for path, interval, timeout in paths
    ]
    spec = {
        "selector": {"matchLabels": SLURMCTLD.selector(of.metadata.name)},
        "namespaceSelector": {"matchNames": [of.metadata.namespace]},
        "endpoints": endpoints,
    }
    return _own(of, SERVICE_MONITORS, of.workload_name, metadata=asked, spec=spec)


def _set(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _annotations(of: Controller, hashes: DaemonHashes) -> dict[str, str]:
    found = {
        **default_container("slurmctld"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.JWT_KEY_HASH: hashes.jwt_key,
    }
    # With reconfiguration in place a changed file must not replace the pod.
    return found if of.spec.inplace_reconfigure else {**found, metadata.SLURM_CONFIG_HASH: hashes.config}


def _pod(of: Controller, accounting: Accounting | None, files: Files, images: Images) -> Piece:
    return {
        "automountServiceAccountToken": False,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_apart(of)]}},
        "securityContext": {**RUN_AS, "fsGroup": wellknown.SLURM_ID},
        "initContainers": list(_sidecars(of, accounting, images)),
        "containers": [_slurmctld(of, images)],
        "volumes": _volumes(of, files),
    }


def _apart(of: Controller) -> Piece:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": SLURMCTLD.selector(of.metadata.name)},
    }


def _sidecars(of: Controller, accounting: Accounting | None, images: Images) -> Iterable[Piece]:
    image = of.spec.slurmctld.get("image") or images.of("slurmctld")
    if of.spec.inplace_reconfigure:
        yield merged(sidecars.reconfigure(image, *_mounts(of)[:3]), of.spec.reconfigure)
    yield merged(sidecars.logfile(image, "slurmctld"), of.spec.logfile)
    if accounting is not None:
        yield sidecars.await_accounting(image, accounting.host, accounting.port, _state_mount(of))


def _slurmctld(of: Controller, images: Images) -> Piece:
    built = {
        "name": "slurmctld",
        "image": images.of("slurmctld"),
        "ports": [{"name": "slurmctld", "containerPort": wellknown.SLURMCTLD_PORT, "protocol": "TCP"}],
        "startupProbe": http_probe("/livez", "slurmctld", **STARTING),
        "livenessProbe": http_probe("/livez", "slurmctld", **PATIENT),
        "readinessProbe": http_probe("/readyz", "slurmctld", periodSeconds=5),
        "securityContext": RUN_AS,
        # The end of its output goes into the pod's status, and from there into our conditions.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(of),
    }
    return merged(built, of.spec.slurmctld)


def _mounts(of: Controller) -> list[Piece]:
    return [
        mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True),
        mount("run", "/run"),
        mount("slurm-authsocket", "/run/slurmctld"),
        _state_mount(of),
        mount(sidecars.LOG_VOLUME, wellknown.LOGS),
    ]


def _state_mount(of: Controller) -> Piece:
    return mount(wellknown.STATE_VOLUME, of.state_folder)


def _volumes(of: Controller, files: Files) -> list[Piece]:
    found = [
        projected(wellknown.ETC_VOLUME, 0o610, _sources(of, files)),
        memory("run"),
        {"name": "slurm-authsocket", "emptyDir": {}},
        memory(sidecars.LOG_VOLUME),
    ]
    kept = of.spec.persistence
    if not kept.enabled:
        found.append({"name": wellknown.STATE_VOLUME, "emptyDir": {}})
    elif kept.existing_claim:
        claim = {"claimName": kept.existing_claim}
        found.append({"name": wellknown.STATE_VOLUME, "persistentVolumeClaim": claim})
    return found


def _sources(of: Controller, files: Files) -> Iterable[Piece]:
    yield config_source(of.config_name)
    yield from key_sources(of.spec.slurm_key_ref)
    yield from jwt_sources(of.spec.jwt_key)
    yield from files.sources()
