# SPDX-License-Identifier: Apache-2.0
"""What `slinky doctor` reads of a Kubernetes: only the fields that its checks look at.

A list that cannot be read is named, with the right that is missing; the other checks go on without it.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.names.wellknown import PROCESSES
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.insight.plain_text import plain
from slinky.kube import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    ApiError,
    Condition,
    Deployment,
    Forbidden,
    Key,
    KubeClient,
    NotFound,
    Object,
    PersistentVolumeClaim,
)
from slinky.kube import Resource as KubeResource
from slinky.kube.aggregation import API_SERVICES, ApiServiceSpec, ServiceReference
from slinky.kube.types import View
from slinky.kube.views import VOLUME_CLAIMS
from slinky.kube.webhook_certificates import MUTATING, VALIDATING
from slinky.operator.framework.definition_skew import DefinitionSkew, read_skew
from slinky.webhook.external_metrics import GROUP, VERSION

T = TypeVar("T")

#: What an administrator must be allowed to create to install the charts: API group and resource.
INSTALL_RIGHTS = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apps", "deployments"),
    ("", "namespaces"),
    ("", "secrets"),
)
#: The ConfigMap in which the API server says whose requests an aggregated API may trust.
FRONT_PROXY = Key("kube-system", "extension-apiserver-authentication")


class NodeInfo(View, frozen=True):
    """The version of a kubelet."""

    kubelet_version: str = ""


class KubeletStatus(View, frozen=True):
    """Whether a kubelet reports, and its version."""

    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class KubeletNode(Object, frozen=True):
    """A Kubernetes node with the version of its kubelet."""

    status: KubeletStatus = KubeletStatus()


class WebhookClient(View, frozen=True):
    """Where the API server sends a review."""

    service: ServiceReference | None = None


class WebhookRegistration(View, frozen=True):
    """One webhook of a configuration."""

    name: str
    client_config: WebhookClient = WebhookClient()
    failure_policy: str = "Fail"


class WebhookSet(Object, frozen=True):
    """A webhook configuration."""

    webhooks: tuple[WebhookRegistration, ...] = ()


class EndpointConditions(View, frozen=True):
    """Whether an endpoint answers; null means that it does."""

    ready: bool | None = None


class ServiceEndpoint(View, frozen=True):
    """One address behind a Service."""

    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(Object, frozen=True):
    """Addresses behind a Service."""

    endpoints: tuple[ServiceEndpoint, ...] | None = ()


class ConditionedStatus(View, frozen=True):
    """The conditions of an object."""

    conditions: tuple[Condition, ...] = ()


class ConditionedObject(Object, frozen=True):
    """An object of one of our kinds."""

    status: ConditionedStatus = ConditionedStatus()


class ApiRegistration(Object, frozen=True):
    """The registration of an API group, and whether it answers."""

    spec: ApiServiceSpec = ApiServiceSpec()
    status: ConditionedStatus = ConditionedStatus()


class BudgetStatus(View, frozen=True):
    """How many pods may be evicted now."""

    disruptions_allowed: int = 0
    expected_pods: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class DisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget."""

    status: BudgetStatus = BudgetStatus()


class PolicySpec(View, frozen=True):
    """Which pods a NetworkPolicy isolates, and what it lets through."""

    pod_selector: dict[str, Any] | None = None
    policy_types: tuple[str, ...] = ()
    ingress: tuple[dict[str, Any], ...] | None = None


class NetworkPolicy(Object, frozen=True):
    """A NetworkPolicy."""

    spec: PolicySpec = PolicySpec()


STORAGE_CLASSES = KubeResource("storage.k8s.io/v1", "StorageClass", "storageclasses", Object, namespaced=False)
ENDPOINT_SLICES = KubeResource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", EndpointSlice)
NETWORK_POLICIES = KubeResource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", NetworkPolicy)
KINDS: tuple[KubeResource[Any], ...] = (CONTROLLERS, ACCOUNTINGS, REST_APIS, NODE_SETS, LOGIN_SETS, TOKENS)


@dataclass(frozen=True)
class Installation:
    """A Kubernetes as the checks see it; `objects` are those of our kinds, with their kind."""

    version: str = ""
    nodes: tuple[KubeletNode, ...] = ()
    #: None if our definitions are not installed.
    skew: tuple[DefinitionSkew, ...] | None = None
    #: What the reader may not create, although an installation needs it.
    missing_rights: tuple[str, ...] = ()
    objects: tuple[tuple[str, ConditionedObject], ...] = ()
    processes: tuple[Deployment, ...] = ()
    webhooks: tuple[WebhookRegistration, ...] = ()
    #: Services with at least one ready address.
    ready_services: frozenset[Key] = frozenset()
    storage_classes: tuple[Object, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    policies: tuple[NetworkPolicy, ...] = ()
    external_metrics: ApiRegistration | None = None
    #: Whether the API server passes on who sends a request; None if that cannot be read.
    has_front_proxy: bool | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether our definitions are installed."""
        return self.skew is not None


async def read_installation(kube: KubeClient, namespace: str) -> Installation:
    """Read what the checks need. Raises `KubeError` if the API server does not answer."""
    version = msgspec.json.decode(await kube.send("GET", "/version"), type=_ServerVersion).git_version
    reader = _Reader(kube)
    skew = await reader.read("the definitions of our kinds", _skew(kube), None)
    if skew is None:
        return Installation(
            version=version,
            nodes=await reader.items(NODES.viewed_as(KubeletNode)),
            missing_rights=tuple([right async for right in _missing_rights(kube)]),
            storage_classes=await reader.items(STORAGE_CLASSES),
            external_metrics=await reader.external_metrics(),
            has_front_proxy=await reader.front_proxy(),
            unreadable=tuple(reader.unreadable),
        )
    objects = [
        (resource.kind, item)
        for resource in KINDS
        for item in await reader.items(resource.viewed_as(ConditionedObject), namespace)
    ]
    spaces = sorted({item.metadata.namespace for _, item in objects})
    webhooks = await reader.webhooks()
    services = {(hook.client_config.service.namespace, hook.client_config.service.name)
                for hook in webhooks if hook.client_config.service}  # fmt: skip
    return Installation(
        version=version,
        nodes=await reader.items(NODES.viewed_as(KubeletNode)),
        skew=tuple(skew),
        objects=tuple(objects),
        processes=await reader.items(DEPLOYMENTS, labels=f"app.kubernetes.io/name in ({', '.join(PROCESSES)})"),
        webhooks=webhooks,
        ready_services=await reader.ready_services(Key(*service) for service in services),
        storage_classes=await reader.items(STORAGE_CLASSES),
        claims=await reader.of_namespaces(VOLUME_CLAIMS, spaces),
        budgets=await reader.of_namespaces(DISRUPTION_BUDGETS.viewed_as(DisruptionBudget), spaces),
        policies=await reader.of_namespaces(NETWORK_POLICIES, spaces),
        external_metrics=await reader.external_metrics(),
        has_front_proxy=await reader.front_proxy(),
        unreadable=tuple(reader.unreadable),
    )


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _Reader:
    """Reads one list after the other, and notes what it may not read."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.unreadable: list[str] = []

    async def read(self, what: str, reading: Awaitable[T], otherwise: T) -> T:
        """What is read; `otherwise` if it does not exist or may not be read."""
        try:
            return await reading
        except NotFound:
            return otherwise
        except Forbidden as error:
            self.unreadable.append(f"{what} ({plain(error.status.message or str(error), 200)})")
        except ApiError as error:
            self.unreadable.append(f"{what} ({plain(str(error), 200)})")
        return otherwise

    async def items(self, resource: KubeResource[Any], namespace: str = "", labels: str = "") -> tuple[Any, ...]:
        """The objects of a kind."""
        listing = self._kube.list(resource, namespace=namespace, labels=labels)
        return tuple(await self.read(resource.plural, listing, []))

    async def of_namespaces(self, resource: KubeResource[Any], namespaces: Iterable[str]) -> tuple[Any, ...]:
        """The objects of a kind in these namespaces."""
        return tuple([item for namespace in namespaces for item in await self.items(resource, namespace)])

    async def webhooks(self) -> tuple[WebhookRegistration, ...]:
        """Our webhooks; their names end with our API group."""
        sets = [item for kind in (VALIDATING, MUTATING) for item in await self.items(kind.viewed_as(WebhookSet))]
        return tuple(hook for item in sets for hook in item.webhooks if hook.name.endswith(".slinky.slurm.net"))

    async def ready_services(self, services: Iterable[Key]) -> frozenset[Key]:
        """Those of the Services that have a ready address."""
        ready = set()
        for service in services:
            slices = await self.items(
                ENDPOINT_SLICES, service.namespace, labels=f"kubernetes.io/service-name={service.name}"
            )
            if any(point.conditions.ready is not False for entry in slices for point in entry.endpoints or ()):
                ready.add(service)
        return frozenset(ready)

    async def external_metrics(self) -> ApiRegistration | None:
        """Who serves external metrics."""
        resource = API_SERVICES.viewed_as(ApiRegistration)
        return await self.read("apiservices", self._kube.find(resource, Key("", f"{VERSION}.{GROUP}")), None)

    async def front_proxy(self) -> bool | None:
        """Whether the API server has a front proxy."""
        config = await self.read(f"the ConfigMap {FRONT_PROXY}", self._kube.find(CONFIG_MAPS, FRONT_PROXY), None)
        return None if config is None else "requestheader-client-ca-file" in config.data


async def _skew(kube: KubeClient) -> list[DefinitionSkew] | None:
    skew = await read_skew(kube)
    return None if skew and not any(entry.is_served for entry in skew) and len(skew) == len(KINDS) else skew


async def _missing_rights(kube: KubeClient) -> Any:
    """What the reader may not create: asked of the API server itself."""
    answers = await asyncio.gather(*(_may_create(kube, group, resource) for group, resource in INSTALL_RIGHTS))
    for (group, resource), allowed in zip(INSTALL_RIGHTS, answers, strict=True):
        if not allowed:
            yield f"{resource}.{group}" if group else resource


async def _may_create(kube: KubeClient, group: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "group": group, "resource": resource}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = await kube.send("POST", path, body=msgspec.json.encode(review))
    return msgspec.json.decode(body, type=_AccessReview).status.allowed


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()
