# SPDX-License-Identifier: Apache-2.0
"""Telling a cache what a deletion has left behind.

The server answers a deletion that is complete with the last version of the object. Taking that for the object itself
would keep it in the cache for ever if the watch has already told of its end.
"""

from typing import TypeVar

from slinky.kube.cache import Cache
from slinky.kube.types import HasMeta, Meta

T = TypeVar("T", bound=HasMeta)


def over(meta: Meta) -> bool:
    """Nothing holds the object any more: neither a grace period nor a finalizer."""
    return meta.deleting and not meta.deletion_grace_period_seconds and not meta.finalizers


def departed(cache: Cache[T], gone: T, left: T | None) -> None:
    """Show in the cache what the server answered when `gone` was deleted or let go."""
    if left is None or over(left.metadata):
        cache.removed(gone.metadata.key, gone.metadata.uid)
    else:
        cache.wrote(left)
