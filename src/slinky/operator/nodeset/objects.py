# SPDX-License-Identifier: Apache-2.0
"""What a NodeSet is made of: worker pods, their claims, and what all workers of a cluster share. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import child_names, metadata, wellknown
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, DISRUPTION_BUDGETS, PODS, SERVICES, VOLUME_CLAIMS
from slinky.operator.build import sidecars
from slinky.operator.build.child_metadata import framed, inherited, pod_template
from slinky.operator.build.images import Images
from slinky.operator.build.pod_parts import (
    PATIENT,
    STARTING,
    Piece,
    default_container,
    headless_spec,
    http_probe,
    key_sources,
    memory,
    mount,
    projected,
    secret_source,
)
from slinky.operator.build.sshd import worker_config
from slinky.operator.build.strategic_merge import merged
from slinky.operator.nodeset.arguments import arguments, environment

#: Tells Slurm that the worker is going, whoever deletes the pod; a constant, read by the container's own shell.
LEAVING = f"{metadata.REASON_PREFIX}Pod is terminating"
_PRE_STOP = f"scontrol update nodename=\"$(hostname)\" state=down reason='{LEAVING}'"

#: With this taint a node is kept for workers.
TOLERATION = {"key": metadata.WORKER_TAINT, "operator": "Equal", "value": "", "effect": "NoExecute"}


class Slot(NamedTuple):
    """A place for a worker: an ordinal, or a Kubernetes node with the host name it gives."""

    ordinal: int | None = None
    node: str = ""
    hostname: str = ""
    topology: str = ""


class WorkerHashes(NamedTuple):
    """Digests of what a running worker has read."""

    revision: str = ""
    slurm_key: str = ""
    sshd: str = ""
    sssd: str = ""


class WorkerContext(NamedTuple):
    """What every worker of a NodeSet is built with."""

    controller: Controller
    hashes: WorkerHashes
    images: Images
    domain: str = child_names.FALLBACK_DOMAIN


def worker_service(of: Controller) -> Piece:
    """Gives every worker of a cluster a name; owned by the Controller, so that no NodeSet takes it along."""
    selector = {metadata.APP_NAME: SLURMD.app, metadata.CLUSTER: of.metadata.name}
    spec = headless_spec(selector, "slurmd", wellknown.SLURMD_PORT)
    return framed(CONTROLLERS, of, SLURMD, SERVICES, Key(of.metadata.namespace, of.worker_service_name), spec=spec)


def worker_budget(of: Controller) -> Piece:
    """Keeps everybody but us from evicting workers that have jobs.

    A number that is never reached refuses every eviction. `maxUnavailable: 0` would not: it counts from the replicas
    that a NodeSet asks for, and while one shrinks, or has a worker per node, more are busy than that.
    """
    selector = {metadata.POD_PROTECT: "true", metadata.CLUSTER: of.metadata.name}
    spec = {"minAvailable": 2**31 - 1, "maxUnavailable": None, "selector": {"matchLabels": selector}}
    key = Key(of.metadata.namespace, of.worker_budget_name)
    return framed(CONTROLLERS, of, SLURMD, DISRUPTION_BUDGETS, key, spec=spec)


def ssh_config(of: NodeSet) -> Piece:
    """sshd_config of the workers."""
    key = Key(of.metadata.namespace, of.ssh_config_name)
    data = {wellknown.SSHD_CONFIG: worker_config(of.spec.ssh.extra_sshd_config)}
    return framed(NODE_SETS, of, SLURMD, CONFIG_MAPS, key, data=data)


def pod_name(of: NodeSet, slot: Slot) -> str:
    """The name of the worker in a slot; on nodes it is made of the node's name, so that no slot is filled twice."""
    if slot.ordinal is not None:
        return of.pod_name(slot.ordinal)
    return f"{of.metadata.name}-{_short(slot.node)}"


def hostname(of: NodeSet, slot: Slot) -> str:
    """The worker's host name."""
    return of.hostname(slot.ordinal) if slot.ordinal is not None else slot.hostname


def pod(of: NodeSet, slot: Slot, setting: WorkerContext) -> Piece:
    """One worker."""
    name = pod_name(of, slot)
    annotations = {**inherited(of), **_annotations(of, slot, setting.hashes)}
    labels = _labels(of, slot, name, setting.hashes)
    built = pod_template(of, of.spec.template, _spec(of, slot, setting), labels, annotations)
    meta = {**built["metadata"], "ownerReferences": [NODE_SETS.owner(of)], "generateName": f"{of.metadata.name}-"}
    spec = {**built["spec"], "hostname": hostname(of, slot)}
    if slot.node:
        spec["affinity"] = _pinned(spec.get("affinity") or {}, slot.node)
    return PODS.manifest(Key(of.metadata.namespace, name), metadata=meta, spec=spec)


def claims(of: NodeSet, slot: Slot) -> Iterable[Piece]:
    """The claims of one worker; they outlive it unless somebody asked otherwise."""
    for template in of.spec.volume_claim_templates:
        meta = template.get("metadata") or {}
        kept = of.spec.persistent_volume_claim_retention_policy.when_deleted == "Retain"
        yield VOLUME_CLAIMS.manifest(
            Key(of.metadata.namespace, of.claim_name(meta.get("name", ""), _identity(of, slot))),
            metadata={
                "labels": {**(meta.get("labels") or {}), **of.labels},
                "annotations": dict(meta.get("annotations") or {}),
                "ownerReferences": [] if kept else [NODE_SETS.owner(of)],
            },
            spec=template.get("spec") or {},
        )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _identity(of: NodeSet, slot: Slot) -> str:
    return of.padded(slot.ordinal) if slot.ordinal is not None else slot.hostname


def _labels(of: NodeSet, slot: Slot, name: str, hashes: WorkerHashes) -> dict[str, str]:
    found = {
        **of.labels,
        metadata.POD_NAME: name,
        metadata.POD_HOSTNAME: hostname(of, slot),
        metadata.SCALING_MODE: of.spec.scaling_mode,
        metadata.REVISION: hashes.revision,
    }
    return found if slot.ordinal is None else {**found, metadata.POD_INDEX: of.padded(slot.ordinal)}


def _annotations(of: NodeSet, slot: Slot, hashes: WorkerHashes) -> dict[str, str]:
    found = {**default_container("slurmd"), metadata.SLURM_KEY_HASH: hashes.slurm_key}
    if of.spec.ssh.enabled:
        found |= {metadata.SSHD_CONF_HASH: hashes.sshd, metadata.SSSD_CONF_HASH: hashes.sssd}
    found |= {metadata.POD_NODE: slot.node} if slot.node else {}
    return found | ({metadata.TOPOLOGY: slot.topology} if slot.topology else {})


def _spec(of: NodeSet, slot: Slot, setting: WorkerContext) -> Piece:
    controller = setting.controller
    image = of.spec.slurmd.get("image") or setting.images.of("slurmd")
    search = child_names.long_address(controller.worker_service_name, of.metadata.namespace, setting.domain)
    found: Piece = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": controller.worker_service_name,
        "dnsConfig": {"searches": [search]},
        "tolerations": [TOLERATION],
        "initContainers": [merged(sidecars.logfile(image, "slurmd"), of.spec.logfile)],
        "containers": [_slurmd(of, setting)],
        "volumes": [*_volumes(of, controller), *_claimed(of, slot)],
    }
    if not of.spec.oversubscribe_node:
        # Two slurmd on one machine would both offer all of it, whichever namespaces they are in.
        apart = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {metadata.APP_NAME: SLURMD.app}},
            "namespaceSelector": {},
        }
        found["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return found


def _slurmd(of: NodeSet, setting: WorkerContext) -> Piece:
    ports = [{"name": "slurmd", "containerPort": wellknown.SLURMD_PORT, "protocol": "TCP"}]
    if of.spec.ssh.enabled:
        ports.append({"name": "ssh", "containerPort": wellknown.SSH_PORT, "protocol": "TCP"})
    built = {
        "name": "slurmd",
        "image": setting.images.of("slurmd"),
        "args": arguments(of, setting.controller),
        "env": environment(of.spec.slurmd, of.spec.template.spec),
        "ports": ports,
        "startupProbe": http_probe("/livez", "slurmd", **STARTING),
        "livenessProbe": http_probe("/livez", "slurmd", **PATIENT),
        "readinessProbe": http_probe("/readyz", "slurmd", periodSeconds=5),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", _PRE_STOP]}}},
        "securityContext": _security(of),
        "volumeMounts": _mounts(of),
    }
    return merged(built, of.spec.slurmd)


def _security(of: NodeSet) -> Piece:
    """What slurmd needs to keep jobs in cgroups; one that is asked to be unprivileged gets nothing of it."""
    if (of.spec.slurmd.get("securityContext") or {}).get("privileged") is False:
        return {"privileged": False}
    return {"privileged": True, "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]}}


def _mounts(of: NodeSet) -> list[Piece]:
    found = [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True), mount(sidecars.LOG_VOLUME, wellknown.LOGS)]
    if of.spec.ssh.enabled:
        found += [
            mount("ssh-config", f"/etc/ssh/{wellknown.SSHD_CONFIG}", read_only=True, sub_path=wellknown.SSHD_CONFIG),
            mount("sssd-conf", f"/etc/sssd/{wellknown.SSSD_CONF}", read_only=True, sub_path=wellknown.SSSD_CONF),
        ]
    return found


def _volumes(of: NodeSet, controller: Controller) -> list[Piece]:
    sources = key_sources(controller.spec.slurm_key_ref)
    found = [projected(wellknown.ETC_VOLUME, 0o600, sources), memory(sidecars.LOG_VOLUME)]
    sssd = of.spec.ssh.sssd_conf_ref
    if of.spec.ssh.enabled and sssd:
        found += [
            {"name": "ssh-config", "configMap": {"name": of.ssh_config_name, "defaultMode": 0o600}},
            projected("sssd-conf", 0o600, [secret_source(sssd.name, sssd.key, wellknown.SSSD_CONF)]),
        ]
    return found


def _claimed(of: NodeSet, slot: Slot) -> Iterable[Piece]:
    for template in of.spec.volume_claim_templates:
        name = (template.get("metadata") or {}).get("name", "")
        yield {
            "name": name,
            "persistentVolumeClaim": {"claimName": of.claim_name(name, _identity(of, slot))},
        }


def _pinned(affinity: Mapping[str, Any], node: str) -> Piece:
    """The scheduler still places the pod, with its priority and its checks, but on this node only."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    placed = {**(affinity.get("nodeAffinity") or {})}
    placed["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return {**affinity, "nodeAffinity": placed}
