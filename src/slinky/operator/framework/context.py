# SPDX-License-Identifier: Apache-2.0
"""What every controller of the operator shares: caches, the client, events, contents, children, Slurm clusters.

One world covers one namespace or all of them; several namespaces are several worlds in one process.
"""

from typing import Any, TypeVar

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube.cache import Cache
from slinky.kube.events import EventRecorder
from slinky.kube.resource import Resource
from slinky.kube.runtime import Runtime
from slinky.kube.types import HasMeta
from slinky.kube.views import NODES, PODS
from slinky.observe import Clock, SystemClock
from slinky.operator.build.monitors import SERVICE_MONITORS
from slinky.operator.framework.children import OURS, Children
from slinky.operator.framework.referenced_data import ReferencedData
from slinky.operator.settings import OperatorSettings

T = TypeVar("T", bound=HasMeta)


class Context:
    """Kubernetes and Slurm as the operator sees them."""

    def __init__(
        self,
        runtime: Runtime,
        settings: OperatorSettings,
        recorder: EventRecorder,
        *,
        namespace: str = "",
        monitors: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`monitors`: the API server has ServiceMonitors."""
        self.runtime = runtime
        self.client = runtime.client
        self.settings = settings
        self.recorder = recorder
        self.namespace = namespace
        self.clock = clock or SystemClock()
        self.controllers = self.cache(CONTROLLERS)
        self.accountings = self.cache(ACCOUNTINGS)
        self.rest_apis = self.cache(REST_APIS)
        self.node_sets = self.cache(NODE_SETS)
        self.login_sets = self.cache(LOGIN_SETS)
        self.tokens = self.cache(TOKENS)
        self.pods = runtime.cache(PODS, namespace=namespace, labels=OURS)
        self.nodes = runtime.cache(NODES)
        self.contents = ReferencedData(runtime, namespace)
        self.monitors = monitors
        further = (SERVICE_MONITORS,) if monitors else ()
        self.children = Children(runtime, namespace, settings.manager, further)

    def cache(self, resource: Resource[T], **selection: Any) -> Cache[T]:
        """A cache of this world's namespace."""
        return self.runtime.cache(resource, namespace=self.namespace, **selection)
