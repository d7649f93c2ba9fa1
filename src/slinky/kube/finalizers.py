# SPDX-License-Identifier: Apache-2.0
"""Writing the finalizers of an object."""

from collections.abc import Iterable
from typing import TypeVar

from slinky.kube.cache import Cache
from slinky.kube.client import KubeClient
from slinky.kube.types import HasMeta

T = TypeVar("T", bound=HasMeta)


async def set_finalizers(client: KubeClient, cache: Cache[T], item: T, finalizers: Iterable[str]) -> T:
    """Replace the finalizers of `item`; `Conflict` if the object has changed since it was read.

    A merge patch replaces the whole list. The resource version in the patch makes the API server refuse a list that
    was computed from an older one, so that a finalizer of another controller is neither lost nor brought back.
    """
    meta = {"finalizers": list(finalizers), "resourceVersion": item.metadata.resource_version}
    return cache.record_write(await client.patch(cache.resource, item.metadata.key, {"metadata": meta}))
