# SPDX-License-Identifier: Apache-2.0
"""What is written when a pod is released, and how the pods of a gang are written."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import pod

from slinky.bridge.config import BridgeSettings
from slinky.bridge.lifecycle.pod_writer import CONCURRENCY, PodWriter, build_tolerations, for_each_pod
from slinky.bridge.views import ResourceClaim, WorkloadPod
from slinky.kube import Key


@pytest.mark.parametrize(
    ("owner", "deleted"), [("uid-p", [Key("ns", "claim")]), ("uid-another", []), ("", [])], ids=["own", "other", "none"]
)
async def test_only_the_claim_that_a_pod_owns_is_deleted_with_it(owner: str, deleted: list[Key]) -> None:
    """A kubelet can write the name of any claim to the status of a pod."""
    owners = [{"uid": owner, "name": "p", "kind": "Pod", "apiVersion": "v1"}] if owner else []
    claim = msgspec.convert(
        {"metadata": {"name": "claim", "namespace": "ns", "uid": "uid-claim", "ownerReferences": owners}}, ResourceClaim
    )
    deletions: list[Key] = []

    async def find(_resource: Any, _key: Key) -> ResourceClaim:
        return claim

    async def delete(_resource: Any, key: Key, *, uid: str) -> None:
        assert uid == "uid-claim"
        deletions.append(key)

    async def patch(*_: Any, **__: Any) -> Any:
        return pod()

    client: Any = SimpleNamespace(find=find, delete=delete, patch=patch)
    cache: Any = SimpleNamespace(record_write=lambda _: None)
    recorder: Any = None
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "claim"}}
    await PodWriter(client, cache, recorder, BridgeSettings()).remove_finalizer(pod(held=True, status=status))
    assert deletions == deleted


def test_the_tolerations_of_a_pod_stay_as_they_are() -> None:
    own = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    first, *added = build_tolerations(pod(spec={"tolerations": [own]}))
    assert first == own
    assert len(added) == 1
    assert build_tolerations(pod(spec={"tolerations": added})) == []


async def test_the_pods_of_a_gang_are_written_concurrently_and_a_failure_stops_no_other() -> None:
    all_started, written = asyncio.Event(), []

    async def write(member: WorkloadPod) -> None:
        written.append(member.metadata.name)
        if len(written) == CONCURRENCY:
            all_started.set()
        await all_started.wait()  # the first writes end only when as many more have begun
        if member.metadata.name == "p0":
            raise RuntimeError("p0")

    pods = [pod(f"p{number}") for number in range(3 * CONCURRENCY)]
    with pytest.raises(RuntimeError, match="p0"):
        await asyncio.wait_for(for_each_pod(pods, write), 30)
    assert sorted(written) == sorted(member.metadata.name for member in pods)
