# SPDX-License-Identifier: Apache-2.0
"""Objects that a hostile user, node or author of our kinds could create."""

import random
from collections.abc import Iterator
from typing import Any

from tests.support.hostile_texts import PIECES
from tests.support.schema_values import admitted_spec

from slinky.api import ACCOUNTINGS, CONTROLLERS, LOGIN_SETS, NODE_SETS, REST_APIS, TOKENS
from slinky.api.names.metadata import GENERATE_KEYS
from slinky.bridge import names
from slinky.bridge.views import BATCH_JOBS, JOB_SETS, OUR_PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from slinky.bridge.workload import grouping
from slinky.bridge.workload.annotations import TABLE
from slinky.kube import NODES, SECRETS, Key, Resource

OWN_KINDS: tuple[Resource[Any], ...] = (ACCOUNTINGS, CONTROLLERS, LOGIN_SETS, NODE_SETS, REST_APIS, TOKENS)
#: Largest annotation; etcd and the API server refuse larger objects.
ANNOTATION_BYTES = 200_000
SELECTORS = (
    "[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4,5,6,7,8,9].all(z, x + y + z > 0)))",
    "||".join(["false"] * 500),
    "device.attributes['a'].b" + ".startsWith('x')" + " && true" * 400,
)

Manifest = tuple[Resource[Any], dict[str, Any]]
#: The label of the only node on which hostile pods may run, so that they do not take the nodes of others.
NODE_LABEL = {"hostile": "true"}


class HostileObjects:
    """Generates objects of a hostile namespace; the API server refuses some of them."""

    def __init__(self, rng: random.Random, namespace: str, scheduler: str, node_prefix: str) -> None:
        self._rng, self._namespace, self._scheduler, self._node_prefix = rng, namespace, scheduler, node_prefix

    def generate(self) -> Iterator[Manifest]:
        """Objects without end."""
        makers = (
            self._pod, self._pod, self._gang, self._job_set, self._claimed, self._node_set, self._controller,
            self._secret, self._own_kind, self._own_kind,
        )  # fmt: skip
        for number in range(10**9):
            yield from self._rng.choice(makers)(number)
            if number % 10 == 0:
                yield from self._slice(number)
                yield from self._node(number)

    def _text(self, most: int = 2000) -> str:
        """A hostile text; sometimes a very long one."""
        pieces = "".join(self._rng.choices(PIECES, k=self._rng.randint(1, 4)))
        return (pieces * self._rng.choice([1, 1, 1, 1000]))[:most].replace("\x00", "")

    def _key(self, number: int) -> Key:
        return Key(self._namespace, f"hostile-{number}")

    def _options(self) -> dict[str, str]:
        chosen = self._rng.sample([option.name for option in TABLE], k=2)
        marks = self._rng.sample([*grouping.INDEXES, names.LWS_SIZE], k=1)
        return {
            **{names.OPTION + name: self._text() for name in chosen},
            **{mark: self._text(ANNOTATION_BYTES) for mark in marks},
        }

    def _pod_spec(self, **more: Any) -> dict[str, Any]:
        cpu = self._rng.choice(["1", "999999999", "1n", "9223372036854775807", "100m"])
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        return {"schedulerName": self._scheduler, "containers": [container], "nodeSelector": NODE_LABEL, **more}

    def annotations(self) -> dict[str, str]:
        """Annotations that replace those of a pod that exists."""
        return self._options()

    def _pod(self, number: int) -> Iterator[Manifest]:
        deadline = {"activeDeadlineSeconds": self._rng.choice([1, 2**31 - 1])}
        yield (
            OUR_PODS,
            OUR_PODS.manifest(
                self._key(number), metadata={"annotations": self._options()}, spec=self._pod_spec(**deadline)
            ),
        )

    def _gang(self, number: int) -> Iterator[Manifest]:
        key = self._key(number)
        template = {"spec": {**self._pod_spec(), "restartPolicy": "Never"}}
        spec = {"parallelism": 2**31 - 1, "completions": 2**31 - 1, "suspend": True, "template": template}
        options = {names.OPTION + "gang": "true", names.OPTION + "pods-per-node": self._text(100)}
        yield BATCH_JOBS, BATCH_JOBS.manifest(key, metadata={"annotations": options}, spec=spec)
        labels = {names.JOB_NAME: key.name}
        yield OUR_PODS, OUR_PODS.manifest(key, metadata={"labels": labels}, spec=self._pod_spec())

    def _job_set(self, number: int) -> Iterator[Manifest]:
        key, replicas = self._key(number), self._rng.choice([2, 10**6, 2**31 - 1, 2**63 - 1])
        job = {"spec": {"parallelism": replicas, "completions": replicas}}
        parts = [{"name": f"r{index}", "replicas": replicas, "template": job} for index in range(3)]
        options = {names.OPTION + "gang": "true", names.OPTION + "nodes": self._text(100)}
        spec = {"replicatedJobs": parts, "startupPolicy": {"startupPolicyOrder": self._text(20)}}
        yield JOB_SETS, JOB_SETS.manifest(key, metadata={"annotations": options}, spec=spec)
        marks = {
            "labels": {names.JOBSET_NAME: key.name},
            "annotations": {names.JOBSET_INDEX: self._text(ANNOTATION_BYTES)},
        }
        yield OUR_PODS, OUR_PODS.manifest(key, metadata=marks, spec=self._pod_spec())

    def _claimed(self, number: int) -> Iterator[Manifest]:
        key = self._key(number)
        selectors = [{"cel": {"expression": self._rng.choice([*SELECTORS, self._text(500)])}}]
        exactly = {"deviceClassName": "none", "count": self._rng.choice([1, 2**31 - 1]), "selectors": selectors}
        opaque = {"driver": "dra.cpu", "parameters": {"cpuset": "0-99999999999"}}
        devices = {"requests": [{"name": "a", "exactly": exactly}], "config": [{"opaque": opaque}]}
        yield RESOURCE_CLAIMS, RESOURCE_CLAIMS.manifest(key, spec={"devices": devices})
        claims = {"resourceClaims": [{"name": "a", "resourceClaimName": key.name}]}
        yield OUR_PODS, OUR_PODS.manifest(key, spec=self._pod_spec(**claims))

    def _slice(self, number: int) -> Iterator[Manifest]:
        attributes = {"cpuIDs": {"string": "0-99999999999"}, "smt": {"string": "0-9>99999999"}}
        devices = [{"name": f"d{index}", "attributes": attributes} for index in range(self._rng.choice([1, 128]))]
        pool = {"name": f"{self._node_prefix}{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "dra.cpu", "pool": pool, "nodeName": f"{self._node_prefix}{number}", "devices": devices}
        yield RESOURCE_SLICES, RESOURCE_SLICES.manifest(Key("", f"{self._node_prefix}{number}"), spec=spec)

    def _node(self, number: int) -> Iterator[Manifest]:
        annotations = {names.TOPOLOGY_ANNOTATION: self._text(), names.PARTITIONS_ANNOTATION: self._text()}
        metadata = {"labels": {names.EXTERNAL_LABEL: ""}, "annotations": annotations}
        yield NODES, NODES.manifest(Key("", f"{self._node_prefix}{number}"), metadata=metadata)

    def _node_set(self, number: int) -> Iterator[Manifest]:
        spec = {
            "controllerRef": {"name": f"hostile-{self._rng.randint(0, number)}"},
            "replicas": 65_533,
            "extraConf": self._text(),
            "partition": {"enabled": True, "config": self._text()},
            "template": {"spec": {"hostname": self._text(20), "containers": [self._text(), None]}},
        }
        yield NODE_SETS, NODE_SETS.manifest(self._key(number), spec=spec)

    def _controller(self, number: int) -> Iterator[Manifest]:
        keys = {name: {"name": f"hostile-{number}", "key": "k0"} for name in ("slurmKeyRef", "jwtKeyRef")}
        lines = "\n".join(f"NodeName={self._text(300)}" for _ in range(20))
        yield CONTROLLERS, CONTROLLERS.manifest(self._key(number), spec={**keys, "extraConf": lines})

    def _own_kind(self, number: int) -> Iterator[Manifest]:
        """An object of any of our kinds with any values that its schema may admit."""
        resource = self._rng.choice(OWN_KINDS)
        yield (
            resource,
            resource.manifest(self._key(number), spec=admitted_spec(resource.kind, self._rng.randrange(2**32))),
        )

    def _secret(self, number: int) -> Iterator[Manifest]:
        wanted = ",".join(f"k{index}" for index in range(20_000))
        yield SECRETS, SECRETS.manifest(self._key(number), metadata={"annotations": {GENERATE_KEYS: wanted}})
