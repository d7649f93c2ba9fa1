# SPDX-License-Identifier: Apache-2.0
"""Laws of finalizers."""

import msgspec
import pytest
from tests.unit.kube.objects import config_map
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import CONFIG_MAPS, Cache, Conflict, Key, KubeClient
from slinky.kube.finalizers import set_finalizers

KEY = Key("ns", "a")


async def test_the_written_finalizers_are_in_the_cache_at_once() -> None:
    meta = {"name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "2", "finalizers": ["x", "y"]}
    transport, cache = Scripted([answer(200, {"metadata": meta})]), Cache(CONFIG_MAPS)
    cache.record_write(config_map("a", 1))
    await set_finalizers(KubeClient(transport), cache, config_map("a", 1), ["x", "y"])
    cached = cache.get(KEY)
    assert cached is not None
    assert cached.metadata.finalizers == ("x", "y")
    [(method, _, body)] = transport.sent
    assert (method, msgspec.json.decode(body or b"")) == (
        "PATCH",
        {"metadata": {"finalizers": ["x", "y"], "resourceVersion": "1"}},
    )


async def test_an_object_that_has_changed_keeps_its_finalizers() -> None:
    refusal = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
    transport, cache = Scripted([answer(409, refusal)]), Cache(CONFIG_MAPS)
    cache.record_write(config_map("a", 1))
    with pytest.raises(Conflict):
        await set_finalizers(KubeClient(transport), cache, config_map("a", 1), [])
    assert cache.get(KEY) == config_map("a", 1)
