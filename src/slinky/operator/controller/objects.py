# SPDX-License-Identifier: Apache-2.0
"""Child objects of a Controller: two Services, a ConfigMap, a StatefulSet, a ServiceMonitor. Pure.

The public Service selects pods by readiness and not by a label: of several slurmctld only the active one answers
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
from slinky.operator.build.child_metadata import child_manifest, pod_template
from slinky.operator.build.config_files import Files
from slinky.operator.build.pod_parts import (
    LIVENESS,
    RESTRICTED,
    STARTUP,
    DaemonHashes,
    Images,
    JsonObject,
    config_source,
    default_container,
    headless_spec,
    http_probe,
    jwt_sources,
    key_sources,
    memory_volume,
    mount,
    pod_run_as,
    projected_volume,
    run_as,
    service_spec,
)
from slinky.operator.build.strategic_merge import merge
from slinky.operator.controller.config_generation import Generation
from slinky.operator.framework.children import SERVICE_MONITORS

#: Metrics endpoints of slurmctld that are scraped if the spec lists none.
METRICS_PATHS = ("/metrics/jobs", "/metrics/nodes", "/metrics/partitions", "/metrics/scheduler")


class ActiveConfig(NamedTuple):
    """The configuration that slurmctld is to run: files, annotations that describe them, the image.

    `started` is the digest of the generation that the pods have to be started with.
    """

    data: Mapping[str, str]
    started: str = ""
    annotations: Mapping[str, str] = {}
    image: str = ""  # empty means the image of the spec


def _child(controller: Controller, resource: Any, name: str, **sections: Any) -> JsonObject:
    return child_manifest(
        CONTROLLERS, controller, SLURMCTLD, resource, Key(controller.metadata.namespace, name), **sections
    )


def service(controller: Controller) -> JsonObject:
    """Return the Service of the active slurmctld."""
    spec = service_spec(
        controller.spec.service,
        SLURMCTLD.selector(controller.metadata.name),
        "slurmctld",
        wellknown.SLURMCTLD_PORT,
        "slurmctld",
    )
    return _child(controller, SERVICES, controller.service_name, metadata=controller.spec.service.metadata, spec=spec)


def internal_service(controller: Controller) -> JsonObject:
    """Return the Service that gives each slurmctld pod a DNS name, ready or not."""
    spec = headless_spec(SLURMCTLD.selector(controller.metadata.name), "slurmctld", wellknown.SLURMCTLD_PORT)
    return _child(controller, SERVICES, controller.internal_service_name, spec=spec)


def config_map(controller: Controller, config: ActiveConfig) -> JsonObject:
    """Return the ConfigMap that slurmctld mounts."""
    manifest = _child(controller, CONFIG_MAPS, controller.config_name, data=dict(config.data))
    manifest["metadata"]["annotations"].update(config.annotations)
    return manifest


def generation_config_map(controller: Controller, generation: Generation) -> JsonObject:
    """Return the immutable ConfigMap of a generation: its files, with its state in annotations."""
    name = generation_name(controller, generation.number)
    manifest = _child(controller, CONFIG_MAPS, name, data=dict(generation.data), immutable=True)
    manifest["metadata"]["annotations"].update(
        {
            metadata.CONFIG_GENERATION: generation.id,
            metadata.CONFIG_VERDICT: generation.state.value,
            metadata.CONFIG_ERROR: generation.message[:1024],
            metadata.CONFIG_IMAGE: generation.image,
            metadata.CONFIG_VERSION: generation.version,
        }
    )
    return manifest


def generation_name(controller: Controller, number: int) -> str:
    """Return the name of the ConfigMap of a generation."""
    return f"{controller.config_name}-{number}"


def stateful_set(
    controller: Controller, accounting: Accounting | None, hashes: DaemonHashes, files: Files, images: Images
) -> JsonObject:
    """Return the StatefulSet of slurmctld."""
    spec: JsonObject = {
        "replicas": 0 if controller.outage_phase.stops_controller else controller.replicas,
        "revisionHistoryLimit": 0,
        # With ordered management a StatefulSet never replaces a pod that cannot start, not even after a correction;
        # and of several slurmctld, the pod after a standby would not be created, because a standby is never ready.
        "podManagementPolicy": "Parallel",
        "serviceName": controller.internal_service_name,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "selector": {"matchLabels": SLURMCTLD.selector(controller.metadata.name)},
        "template": pod_template(
            controller,
            controller.spec.template,
            _pod(controller, accounting, files, images),
            SLURMCTLD.labels(controller.metadata.name),
            _annotations(controller, hashes),
        ),
    }
    if controller.spec.ha.enabled:
        # A standby is never ready, so that a rolling update would not replace the pod before it (see `rollout`).
        spec["updateStrategy"] = {"type": "OnDelete"}
    if controller.spec.persistence.enabled and not controller.spec.persistence.existing_claim:
        spec["volumeClaimTemplates"] = [
            {"metadata": {"name": wellknown.STATE_VOLUME}, "spec": controller.spec.persistence.claim_spec()}
        ]
    return _child(
        controller, STATEFUL_SETS, controller.workload_name, metadata=controller.spec.template.metadata, spec=spec
    )


def reloads_files(controller: Controller) -> bool:
    """Return whether slurmctld can load files while it runs; several slurmctld are replaced one after the other."""
    return controller.spec.inplace_reconfigure or not controller.spec.ha.enabled


def service_monitor(controller: Controller) -> JsonObject:
    """Return the ServiceMonitor, from which Prometheus learns what to scrape."""
    monitor = controller.spec.metrics.service_monitor
    paths = [(e.path, e.interval, e.scrape_timeout) for e in monitor.endpoints] or [(p, "", "") for p in METRICS_PATHS]
    endpoints = [
        {"port": "slurmctld", "scheme": "http", "path": path}
        | _nonempty(interval=interval or monitor.interval, scrapeTimeout=timeout or monitor.scrape_timeout)
        for path, interval, timeout in paths
    ]
    spec = {
        "selector": {"matchLabels": SLURMCTLD.selector(controller.metadata.name)},
        "namespaceSelector": {"matchNames": [controller.metadata.namespace]},
        "endpoints": endpoints,
    }
    return _child(controller, SERVICE_MONITORS, controller.workload_name, metadata=monitor, spec=spec)


def _nonempty(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _annotations(controller: Controller, hashes: DaemonHashes) -> dict[str, str]:
    annotations = {
        **default_container("slurmctld"),
        metadata.SLURM_KEY_HASH: hashes.slurm_key,
        metadata.JWT_KEY_HASH: hashes.jwt_key,
    }
    # Here no change of a file may replace the pod, whatever it needs.
    if controller.spec.inplace_reconfigure:
        return annotations
    return {**annotations, metadata.SLURM_CONFIG_HASH: hashes.config}


def _pod(controller: Controller, accounting: Accounting | None, files: Files, images: Images) -> JsonObject:
    return {
        "automountServiceAccountToken": False,
        "affinity": {"podAntiAffinity": _anti_affinity(controller)},
        "securityContext": pod_run_as(wellknown.SLURM_ID),
        "initContainers": list(_sidecars(controller, accounting, images)),
        "containers": [_slurmctld(controller, images)],
        "volumes": _volumes(controller, files),
    }


def _anti_affinity(controller: Controller) -> JsonObject:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": SLURMCTLD.selector(controller.metadata.name)},
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _sidecars(controller: Controller, accounting: Accounting | None, images: Images) -> Iterable[JsonObject]:
    image = controller.spec.slurmctld.get("image") or images.image_for("slurmctld")
    if reloads_files(controller):
        mounts = (*_mounts(controller)[:3], mount(sidecars.POD_INFO_VOLUME, sidecars.POD_INFO, read_only=True))
        reconfigure = sidecars.reconfigure(image, *mounts)
        yield merge({**reconfigure, "securityContext": RESTRICTED}, controller.spec.reconfigure)
    logfile = sidecars.logfile(image, "slurmctld", controller.cluster_name)
    yield merge({**logfile, "securityContext": RESTRICTED}, controller.spec.logfile)
    if accounting is not None:
        waiting = sidecars.await_accounting(image, accounting.host, accounting.port, _state_mount(controller))
        yield {**waiting, "securityContext": RESTRICTED}


def _slurmctld(controller: Controller, images: Images) -> JsonObject:
    built = {
        "name": "slurmctld",
        "image": images.image_for("slurmctld"),
        "env": sidecars.log_environment(controller.cluster_name),
        "ports": [{"name": "slurmctld", "containerPort": wellknown.SLURMCTLD_PORT, "protocol": "TCP"}],
        "startupProbe": http_probe("/livez", "slurmctld", **STARTUP),
        "livenessProbe": http_probe("/livez", "slurmctld", **LIVENESS),
        "readinessProbe": http_probe("/readyz", "slurmctld", periodSeconds=5),
        "securityContext": run_as(wellknown.SLURM_ID),
        # The end of the output is kept in the status of the pod; the operator reports it in conditions.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(controller),
    }
    return merge(built, controller.spec.slurmctld)


def _mounts(controller: Controller) -> list[JsonObject]:
    return [
        mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True),
        mount("run", "/run"),
        mount("slurm-authsocket", "/run/slurmctld"),
        _state_mount(controller),
        mount(sidecars.LOG_VOLUME, wellknown.LOGS),
    ]


def _state_mount(controller: Controller) -> JsonObject:
    return mount(wellknown.STATE_VOLUME, controller.state_folder)


def _volumes(controller: Controller, files: Files) -> list[JsonObject]:
    volumes = [
        projected_volume(wellknown.ETC_VOLUME, 0o610, _sources(controller, files)),
        memory_volume("run"),
        {"name": "slurm-authsocket", "emptyDir": {}},
        memory_volume(sidecars.LOG_VOLUME),
    ]
    if reloads_files(controller):
        volumes.append(sidecars.pod_info_volume())
    persistence = controller.spec.persistence
    if not persistence.enabled:
        volumes.append({"name": wellknown.STATE_VOLUME, "emptyDir": {}})
    elif persistence.existing_claim:
        claim = {"claimName": persistence.existing_claim}
        volumes.append({"name": wellknown.STATE_VOLUME, "persistentVolumeClaim": claim})
    return volumes


def _sources(controller: Controller, files: Files) -> Iterable[JsonObject]:
    yield config_source(controller.config_name)
    yield from key_sources(controller.spec.slurm_key_ref)
    yield from jwt_sources(controller.spec.jwt_key)
    yield from files.sources()
