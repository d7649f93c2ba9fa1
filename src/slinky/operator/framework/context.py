# SPDX-License-Identifier: Apache-2.0
"""What the controllers of the operator share: the client, caches, events, referenced data and child objects.

A context covers one namespace or all of them. An operator that watches several namespaces has one context for each.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.names import metadata
from slinky.api.names.child_names import DaemonRole
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube.cache import Cache
from slinky.kube.events import EventRecorder
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import HasMeta, Key
from slinky.kube.views import NODES, PODS, Pod
from slinky.observe import Clock, SystemClock
from slinky.operator.build.pod_parts import Images
from slinky.operator.framework.children import CHILD_SELECTOR, SERVICE_MONITORS, Children
from slinky.operator.framework.referenced_data import ReferencedData
from slinky.operator.settings import OperatorSettings

T = TypeVar("T", bound=HasMeta)

#: Index of pods by daemon and object.
BY_DAEMON = "daemon"


class Context:
    """Caches and writers for one namespace, or for all of them."""

    def __init__(
        self,
        runtime: Runtime,
        settings: OperatorSettings,
        recorder: EventRecorder,
        *,
        namespace: str = "",
        service_monitors: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`service_monitors` tells whether the API server serves the kind ServiceMonitor."""
        self.runtime = runtime
        self.client = runtime.client
        self.settings = settings
        self.images = Images(settings.image, settings.proxy_image)
        self.recorder = recorder
        self.namespace = namespace
        self.clock = clock or SystemClock()
        self.controllers = self.cache(CONTROLLERS)
        self.accountings = self.cache(ACCOUNTINGS)
        self.rest_apis = self.cache(REST_APIS)
        self.node_sets = self.cache(NODE_SETS)
        self.login_sets = self.cache(LOGIN_SETS)
        self.tokens = self.cache(TOKENS)
        self.pods = runtime.cache(PODS, namespace=namespace, labels=CHILD_SELECTOR)
        self.pods.add_indexes({BY_DAEMON: _daemon_of})
        self.nodes = runtime.cache(NODES)
        self.referenced_data = ReferencedData(runtime, namespace)
        self.service_monitors = service_monitors
        self.children = Children(runtime, namespace, (SERVICE_MONITORS,) if service_monitors else ())

    def cache(self, resource: Resource[T], **selection: Any) -> Cache[T]:
        """Return a cache of a kind in this context's namespace."""
        return self.runtime.cache(resource, namespace=self.namespace, **selection)

    def daemon_pods(self, role: DaemonRole, key: Key) -> list[Pod]:
        """Return the pods of an object that run this daemon."""
        return self.pods.by(BY_DAEMON, f"{role.app} {key}")


def parents_of(role: DaemonRole) -> Callable[[Pod], tuple[Key, ...]]:
    """Return a function that maps a pod of this daemon to the object that it belongs to."""
    return lambda pod: (_instance_of(pod),) if pod.metadata.labels.get(metadata.APP_NAME) == role.app else ()


def _daemon_of(pod: Pod) -> tuple[str, ...]:
    return (f"{pod.metadata.labels.get(metadata.APP_NAME, '')} {_instance_of(pod)}",)


def _instance_of(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.labels.get(metadata.APP_INSTANCE, ""))
