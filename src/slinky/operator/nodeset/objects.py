# SPDX-License-Identifier: Apache-2.0
"""Builds the objects of a NodeSet: worker pods, claims, and what all workers of a cluster share. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import child_names, metadata, wellknown
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, DISRUPTION_BUDGETS, PODS, SERVICES, VOLUME_CLAIMS
from slinky.operator.build import sidecars
from slinky.operator.build.child_metadata import child_manifest, inherited_annotations, pod_template
from slinky.operator.build.pod_parts import (
    LIVENESS,
    STARTUP,
    Images,
    JsonObject,
    default_container,
    headless_spec,
    http_probe,
    key_sources,
    memory_volume,
    mount,
    projected_volume,
    secret_source,
)
from slinky.operator.build.sshd import worker_config
from slinky.operator.build.strategic_merge import check_types, merge
from slinky.operator.nodeset.arguments import arguments, environment, limited_resources

#: Reason in Slurm of a worker whose pod is being deleted. The container sets it, however the pod is deleted, but leaves
#: the drain of another owner as it is, and a host whose state slurmctld does not tell: it may have such a drain.
TERMINATING_REASON = f"{metadata.REASON_PREFIX}Pod is terminating"
PRE_STOP = f"""host=$(hostname)
state=$(scontrol -o show node "$host") || exit 0
case $state in
    *+DRAIN*' Reason={metadata.REASON_PREFIX}'*) ;;
    *+DRAIN*) exit 0 ;;
esac
exec scontrol update nodename="$host" state=down reason='{TERMINATING_REASON}'
"""

#: Limits of the container that prints the log, where slurmd has limits.
LOGFILE_LIMITS = {"cpu": "100m", "memory": "64Mi"}

#: A node with this taint is reserved for workers.
TOLERATION = {"key": metadata.WORKER_TAINT, "operator": "Equal", "value": "", "effect": "NoExecute"}
#: A bridge taints the nodes that it schedules. In DaemonSet mode the worker of such a node has the same host as the
#: pods of the bridge. Other workers are kept away, because they would offer the node to Slurm as a second host.
BRIDGE_TOLERATION = {"key": metadata.BRIDGE_TAINT, "operator": "Exists"}


class Slot(NamedTuple):
    """Identity of a worker: an ordinal, or a Kubernetes node with the host name of its worker."""

    ordinal: int | None = None
    node: str = ""
    hostname: str = ""
    topology: str = ""


class WorkerHashes(NamedTuple):
    """Digests of the revision, keys and files that a worker uses."""

    revision: str = ""
    slurm_key: str = ""
    sshd: str = ""
    sssd: str = ""


class WorkerContext(NamedTuple):
    """What all workers of a NodeSet are built from."""

    controller: Controller
    hashes: WorkerHashes
    images: Images
    domain: str = child_names.FALLBACK_DOMAIN


def worker_service(controller: Controller) -> JsonObject:
    """The headless Service that gives workers DNS names; the Controller owns it, so that it outlives NodeSets."""
    selector = {metadata.APP_NAME: SLURMD.app, metadata.CLUSTER: controller.metadata.name}
    spec = headless_spec(selector, "slurmd", wellknown.SLURMD_PORT)
    key = Key(controller.metadata.namespace, controller.worker_service_name)
    return child_manifest(CONTROLLERS, controller, SLURMD, SERVICES, key, spec=spec)


def worker_budget(controller: Controller) -> JsonObject:
    """The PodDisruptionBudget that prevents the eviction of workers with jobs.

    `minAvailable` is a number that is never reached, which refuses every eviction. `maxUnavailable: 0` would not,
    because it is relative to the replicas of a NodeSet; during a scale-in, or in DaemonSet mode, more workers may be
    busy than that.
    """
    selector = {metadata.POD_PROTECT: "true", metadata.CLUSTER: controller.metadata.name}
    spec = {"minAvailable": 2**31 - 1, "maxUnavailable": None, "selector": {"matchLabels": selector}}
    key = Key(controller.metadata.namespace, controller.worker_budget_name)
    return child_manifest(CONTROLLERS, controller, SLURMD, DISRUPTION_BUDGETS, key, spec=spec)


def ssh_config(node_set: NodeSet) -> JsonObject:
    """The ConfigMap with sshd_config of the workers."""
    key = Key(node_set.metadata.namespace, node_set.ssh_config_name)
    data = {wellknown.SSHD_CONFIG: worker_config(node_set.spec.ssh.extra_sshd_config)}
    return child_manifest(NODE_SETS, node_set, SLURMD, CONFIG_MAPS, key, data=data)


def pod_name(node_set: NodeSet, slot: Slot) -> str:
    """Name of the pod in a slot; in DaemonSet mode it is derived from the node, so that no slot is filled twice."""
    if slot.ordinal is not None:
        return node_set.pod_name(slot.ordinal)
    return f"{node_set.metadata.name}-{_short_digest(slot.node)}"


def slot_hostname(node_set: NodeSet, slot: Slot) -> str:
    """Host name of the worker in a slot."""
    return node_set.hostname(slot.ordinal) if slot.ordinal is not None else slot.hostname


def pod(node_set: NodeSet, slot: Slot, context: WorkerContext) -> JsonObject:
    """The pod of a worker."""
    for part in (node_set.spec.slurmd, node_set.spec.template.spec):
        check_types(part)
    name = pod_name(node_set, slot)
    annotations = {**inherited_annotations(node_set), **_annotations(node_set, slot, context.hashes)}
    labels = _labels(node_set, slot, name, context.hashes)
    built = pod_template(node_set, node_set.spec.template, _spec(node_set, slot, context), labels, annotations)
    meta = {
        **built["metadata"],
        "ownerReferences": [NODE_SETS.owner(node_set)],
        "generateName": f"{node_set.metadata.name}-",
    }
    spec = {**built["spec"], "hostname": slot_hostname(node_set, slot)}
    if slot.node:
        spec["affinity"] = _node_affinity(spec.get("affinity") or {}, slot.node)
    return PODS.manifest(Key(node_set.metadata.namespace, name), metadata=meta, spec=spec)


def claims(node_set: NodeSet, slot: Slot) -> Iterable[JsonObject]:
    """The claims of a worker; the retention policy says whether they are deleted with the NodeSet."""
    for template in node_set.claim_templates:
        kept = node_set.spec.persistent_volume_claim_retention_policy.when_deleted == "Retain"
        yield VOLUME_CLAIMS.manifest(
            Key(node_set.metadata.namespace, node_set.claim_name(template.name, _identity(node_set, slot))),
            metadata={
                "labels": {**template.labels, **node_set.labels},
                "annotations": dict(template.annotations),
                "ownerReferences": [] if kept else [NODE_SETS.owner(node_set)],
            },
            spec=template.spec,
        )


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _identity(node_set: NodeSet, slot: Slot) -> str:
    return node_set.padded(slot.ordinal) if slot.ordinal is not None else slot.hostname


def _labels(node_set: NodeSet, slot: Slot, name: str, hashes: WorkerHashes) -> dict[str, str]:
    labels = {
        **node_set.labels,
        metadata.POD_NAME: name,
        metadata.POD_HOSTNAME: slot_hostname(node_set, slot),
        metadata.SCALING_MODE: node_set.spec.scaling_mode,
        metadata.REVISION: hashes.revision,
    }
    return labels if slot.ordinal is None else {**labels, metadata.POD_INDEX: node_set.padded(slot.ordinal)}


def _annotations(node_set: NodeSet, slot: Slot, hashes: WorkerHashes) -> dict[str, str]:
    annotations = {**default_container("slurmd"), metadata.SLURM_KEY_HASH: hashes.slurm_key}
    if node_set.spec.ssh.enabled:
        annotations |= {metadata.SSHD_CONF_HASH: hashes.sshd, metadata.SSSD_CONF_HASH: hashes.sssd}
    annotations |= {metadata.POD_NODE: slot.node} if slot.node else {}
    return annotations | ({metadata.TOPOLOGY: slot.topology} if slot.topology else {})


def _spec(node_set: NodeSet, slot: Slot, context: WorkerContext) -> JsonObject:
    controller = context.controller
    image = node_set.spec.slurmd.get("image") or context.images.image_for("slurmd")
    search = child_names.long_address(controller.worker_service_name, node_set.metadata.namespace, context.domain)
    spec: JsonObject = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": controller.worker_service_name,
        "dnsConfig": {"searches": [search]},
        "tolerations": [TOLERATION, *([BRIDGE_TOLERATION] if node_set.per_node else [])],
        "initContainers": [merge(_logfile(node_set, image, controller.cluster_name), node_set.spec.logfile)],
        "containers": [_slurmd(node_set, context)],
        "volumes": [*_volumes(node_set, controller), *_claim_volumes(node_set, slot)],
    }
    if not node_set.spec.oversubscribe_node:
        # Two slurmd on one node would both offer all of its resources, even in different namespaces. A policy of the
        # operator's chart keeps these labels off the pods of others, which could block nodes by them.
        separate = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {metadata.APP_NAME: SLURMD.app, metadata.APP_COMPONENT: SLURMD.component}},
            "namespaceSelector": {},
        }
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [separate]}}
    return spec


def _logfile(node_set: NodeSet, image: str, cluster: str) -> JsonObject:
    """The container that prints slurmd's log, limited in the resources in which slurmd is limited.

    Slurm puts jobs beside slurmd's container, into the cgroup of the pod. The kubelet limits that cgroup only if all
    containers of the pod have a limit. The requests are zero, so that the pod still fits where slurmd fits.
    """
    container = sidecars.logfile(image, "slurmd", cluster)
    limits = {name: LOGFILE_LIMITS[name] for name in limited_resources(node_set.spec.slurmd) if name in LOGFILE_LIMITS}
    if not limits:
        return container
    return {**container, "resources": {"limits": limits, "requests": dict.fromkeys(limits, "0")}}


def _slurmd(node_set: NodeSet, context: WorkerContext) -> JsonObject:
    ports = [{"name": "slurmd", "containerPort": wellknown.SLURMD_PORT, "protocol": "TCP"}]
    if node_set.spec.ssh.enabled:
        ports.append({"name": "ssh", "containerPort": wellknown.SSH_PORT, "protocol": "TCP"})
    built = {
        "name": "slurmd",
        "image": context.images.image_for("slurmd"),
        "args": arguments(node_set, context.controller),
        "env": [
            *environment(node_set.spec.slurmd, node_set.spec.template.spec),
            *sidecars.log_environment(context.controller.cluster_name),
        ],
        "ports": ports,
        "startupProbe": http_probe("/livez", "slurmd", **STARTUP),
        "livenessProbe": http_probe("/livez", "slurmd", **LIVENESS),
        "readinessProbe": http_probe("/readyz", "slurmd", periodSeconds=5),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", PRE_STOP]}}},
        "securityContext": _security(node_set),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(node_set),
    }
    return merge(built, node_set.spec.slurmd)


def _security(node_set: NodeSet) -> JsonObject:
    """The privileges that slurmd needs for cgroups; none if the spec asks for an unprivileged container."""
    if (node_set.spec.slurmd.get("securityContext") or {}).get("privileged") is False:
        return {"privileged": False}
    return {"privileged": True, "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]}}


def _mounts(node_set: NodeSet) -> list[JsonObject]:
    mounts = [mount(wellknown.ETC_VOLUME, wellknown.ETC, read_only=True), mount(sidecars.LOG_VOLUME, wellknown.LOGS)]
    if node_set.spec.ssh.enabled:
        mounts += [
            mount("ssh-config", f"/etc/ssh/{wellknown.SSHD_CONFIG}", read_only=True, sub_path=wellknown.SSHD_CONFIG),
            mount("sssd-conf", f"/etc/sssd/{wellknown.SSSD_CONF}", read_only=True, sub_path=wellknown.SSSD_CONF),
        ]
    return mounts


def _volumes(node_set: NodeSet, controller: Controller) -> list[JsonObject]:
    sources = key_sources(controller.spec.slurm_key_ref)
    volumes = [projected_volume(wellknown.ETC_VOLUME, 0o600, sources), memory_volume(sidecars.LOG_VOLUME)]
    sssd = node_set.spec.ssh.sssd_conf_ref
    if node_set.spec.ssh.enabled and sssd:
        volumes += [
            {"name": "ssh-config", "configMap": {"name": node_set.ssh_config_name, "defaultMode": 0o600}},
            projected_volume("sssd-conf", 0o600, [secret_source(sssd.name, sssd.key, wellknown.SSSD_CONF)]),
        ]
    return volumes


def _claim_volumes(node_set: NodeSet, slot: Slot) -> Iterable[JsonObject]:
    for template in node_set.claim_templates:
        if not template.name:
            raise Blocked("InvalidTemplate", "each of volumeClaimTemplates must have metadata.name; correct the spec")
        claim = node_set.claim_name(template.name, _identity(node_set, slot))
        yield {"name": template.name, "persistentVolumeClaim": {"claimName": claim}}


def _node_affinity(affinity: Mapping[str, Any], node: str) -> JsonObject:
    """Affinity to one node. The scheduler still places the pod, so that priority and its checks apply."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {})}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return {**affinity, "nodeAffinity": node_affinity}
