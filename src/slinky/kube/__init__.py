# SPDX-License-Identifier: Apache-2.0
"""A runtime for Kubernetes controllers: client, caches, control loops, leader election, events and admission."""

from typing import TYPE_CHECKING

from slinky.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from slinky.kube.admission import AdmissionRequest, AdmissionResponse, deny
    from slinky.kube.cache import Cache, by_label, by_owner
    from slinky.kube.client import KubeClient, connect
    from slinky.kube.config import Access, find_access
    from slinky.kube.controller import ControlLoop, RequeueAfter
    from slinky.kube.discovery import Discovery, ServedKind, discover, restart_on_new_kinds
    from slinky.kube.errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        Blocked,
        Conflict,
        DeadlineExceeded,
        ErrorDecision,
        ErrorKind,
        Expired,
        Forbidden,
        Invalid,
        KubeError,
        Later,
        LeadershipLost,
        Misconfigured,
        NotFound,
        ServerError,
        TooManyRequests,
        Unauthorized,
        Unreachable,
        Unreadable,
        classify_error,
    )
    from slinky.kube.events import EventRecorder
    from slinky.kube.lease import Election, LeaseTiming
    from slinky.kube.quantity import Quantity
    from slinky.kube.queue import Queue, backoff_seconds
    from slinky.kube.resource import Resource, UndecodableObject, own_key, owned_by
    from slinky.kube.runtime import Runtime
    from slinky.kube.types import Condition, HasMeta, Key, Manifest, Object, ObjectMeta, Owner, Reference, View
    from slinky.kube.views import (
        BATCH_JOBS,
        CONFIG_MAPS,
        CUSTOM_RESOURCES,
        DEPLOYMENTS,
        DISRUPTION_BUDGETS,
        EVENTS,
        LEASES,
        NAMESPACES,
        NODES,
        PODS,
        SECRETS,
        SERVICE_ACCOUNTS,
        SERVICES,
        STATEFUL_SETS,
        VOLUME_CLAIMS,
        BatchJob,
        ConfigMap,
        Deployment,
        Lease,
        Node,
        PersistentVolumeClaim,
        Pod,
        Scale,
        Secret,
        Service,
        StatefulSet,
        Unstructured,
    )
    from slinky.kube.watch import Watch

__all__ = [
    "BATCH_JOBS",
    "CONFIG_MAPS",
    "CUSTOM_RESOURCES",
    "DEPLOYMENTS",
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "STATEFUL_SETS",
    "VOLUME_CLAIMS",
    "Access",
    "AdmissionRequest",
    "AdmissionResponse",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "BatchJob",
    "Blocked",
    "Cache",
    "Condition",
    "ConfigMap",
    "Conflict",
    "ControlLoop",
    "DeadlineExceeded",
    "Deployment",
    "Discovery",
    "Election",
    "ErrorDecision",
    "ErrorKind",
    "EventRecorder",
    "Expired",
    "Forbidden",
    "HasMeta",
    "Invalid",
    "Key",
    "KubeClient",
    "KubeError",
    "Later",
    "LeadershipLost",
    "Lease",
    "LeaseTiming",
    "Manifest",
    "Misconfigured",
    "Node",
    "NotFound",
    "Object",
    "ObjectMeta",
    "Owner",
    "PersistentVolumeClaim",
    "Pod",
    "Quantity",
    "Queue",
    "Reference",
    "RequeueAfter",
    "Resource",
    "Runtime",
    "Scale",
    "Secret",
    "ServedKind",
    "ServerError",
    "Service",
    "StatefulSet",
    "TooManyRequests",
    "Unauthorized",
    "UndecodableObject",
    "Unreachable",
    "Unreadable",
    "Unstructured",
    "View",
    "Watch",
    "backoff_seconds",
    "by_label",
    "by_owner",
    "classify_error",
    "connect",
    "deny",
    "discover",
    "find_access",
    "own_key",
    "owned_by",
    "restart_on_new_kinds",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "admission": "AdmissionRequest AdmissionResponse deny",
        "cache": "Cache by_label by_owner",
        "client": "KubeClient connect",
        "config": "Access find_access",
        "controller": "ControlLoop RequeueAfter",
        "discovery": "Discovery ServedKind discover restart_on_new_kinds",
        "errors": (
            "AlreadyExists ApiError BadRequest Blocked Conflict DeadlineExceeded ErrorDecision ErrorKind Expired "
            "Forbidden Invalid KubeError Later LeadershipLost Misconfigured NotFound ServerError TooManyRequests "
            "Unauthorized Unreachable Unreadable classify_error"
        ),
        "events": "EventRecorder",
        "lease": "Election LeaseTiming",
        "quantity": "Quantity",
        "queue": "Queue backoff_seconds",
        "resource": "Resource UndecodableObject own_key owned_by",
        "runtime": "Runtime",
        "types": "Condition HasMeta Key Manifest Object ObjectMeta Owner Reference View",
        "views": (
            "BATCH_JOBS CONFIG_MAPS CUSTOM_RESOURCES DEPLOYMENTS DISRUPTION_BUDGETS EVENTS LEASES NAMESPACES "
            "NODES PODS SECRETS SERVICE_ACCOUNTS SERVICES STATEFUL_SETS VOLUME_CLAIMS BatchJob ConfigMap "
            "Deployment Lease Node PersistentVolumeClaim Pod Scale Secret Service StatefulSet Unstructured"
        ),
        "watch": "Watch",
    },
)
