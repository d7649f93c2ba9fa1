# SPDX-License-Identifier: Apache-2.0
"""The ServiceMonitor of the Prometheus operator, as far as we write it."""

from slinky.kube.resource import Resource
from slinky.kube.types import Object

SERVICE_MONITORS = Resource("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", Object)
