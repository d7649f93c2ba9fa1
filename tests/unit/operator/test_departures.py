# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from slinky.kube.cache import Cache
from slinky.kube.types import Meta
from slinky.kube.views import PODS, Pod, PodSpec
from slinky.operator.departures import departed

DELETED = "2026-11-16T12:00:00Z"


def pod(version: str, grace: int | None = None, finalizers: tuple[str, ...] = ()) -> Pod:
    meta = Meta("w", "ns", "uid", version, finalizers=finalizers, deletion_grace_period_seconds=grace)
    if grace is not None:
        meta = msgspec.structs.replace(meta, deletion_timestamp=DELETED)
    return Pod(meta, PodSpec())


@pytest.mark.parametrize(
    ("left", "stays"),
    [(None, False), (pod("2", 0), False), (pod("2", 30), True), (pod("2", 0, ("x",)), True)],
    ids=["nothing left", "the last version of it", "a grace period", "a finalizer"],
)
def test_a_cache_keeps_what_lingers_and_nothing_else(left: Pod | None, stays: bool) -> None:
    cache = Cache(PODS)
    before = pod("1")
    cache.put(before)
    departed(cache, before, left)
    assert (cache.get(before.key) is not None) is stays
