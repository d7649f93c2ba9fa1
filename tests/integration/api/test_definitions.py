# SPDX-License-Identifier: Apache-2.0
"""Our definitions on the real API server."""

from typing import Any

import pytest
import yaml
from tests.integration.api.conftest import Kubectl
from tests.integration.api.manifests import FAMILIAR, JWT, KEY, SMALLEST, manifest

from slinky.api import (
    ACCOUNTINGS,
    CONTROLLERS,
    LOGIN_SETS,
    NODE_SETS,
    REST_APIS,
    TOKENS,
    Controller,
    NodeSet,
    crds,
)
from slinky.kube import Invalid, Key, KubeClient, Resource, Unstructured
from slinky.kube.conditions import condition_manifests, with_condition
from slinky.observe import SystemClock

RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource for resource in (ACCOUNTINGS, CONTROLLERS, LOGIN_SETS, NODE_SETS, REST_APIS, TOKENS)
}


async def test_every_definition_is_established_without_errors(installed: list[Unstructured]) -> None:
    assert {definition.spec["names"]["kind"] for definition in installed} == set(SMALLEST)
    for definition in installed:
        conditions = {item["type"]: item for item in definition.status["conditions"]}
        assert conditions["NamesAccepted"]["status"] == "True"
        assert conditions.get("NonStructuralSchema", {}).get("status", "False") == "False", conditions


def test_the_printed_text_is_what_is_installed() -> None:
    assert list(yaml.safe_load_all(crds.text())) == list(crds.DEFINITIONS)
    assert "&id" not in crds.text()


def test_manifests_of_the_incumbent_apply_unchanged_and_no_field_is_dropped(kubectl: Kubectl, space: str) -> None:
    done = kubectl("apply", "-n", space, "--validate=strict", "-f", "-", input=FAMILIAR)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created") == 8


@pytest.mark.parametrize("kind", SMALLEST)
async def test_the_smallest_object_of_each_kind_is_stored_and_read_back(
    client: KubeClient, space: str, kind: str
) -> None:
    resource = RESOURCES[kind]
    await client.create(resource, manifest(kind, space))
    assert (await client.get(resource, Key(space, "slurm"))).metadata.name == "slurm"
    assert not [item for item in (await client.list(resource, namespace=space)) if not isinstance(item, resource.view)]


async def test_the_api_server_sets_defaults(client: KubeClient, space: str) -> None:
    whole = NODE_SETS.viewed_as(Unstructured)
    created = await client.create(whole, manifest("NodeSet", space, updateStrategy={}, partition={}))
    assert created.spec == {
        "controllerRef": {"name": "slurm"},
        "replicas": 1,
        "scalingMode": "StatefulSet",
        "updateStrategy": {"type": "RollingUpdate"},
        "partition": {"enabled": False},
        "revisionHistoryLimit": 0,
        "minReadySeconds": 0,
        "ordinalPadding": 0,
        "pinToNode": False,
        "workloadDisruptionProtection": True,
        "pruneSlurmNodeRecords": "Never",
        "oversubscribeNode": False,
    }


@pytest.mark.parametrize(
    ("kind", "port"), [("Controller", 6817), ("Accounting", 6819), ("RestApi", 6820), ("LoginSet", 22)]
)
async def test_a_service_has_the_port_of_its_program(client: KubeClient, space: str, kind: str, port: int) -> None:
    created = await client.create(RESOURCES[kind].viewed_as(Unstructured), manifest(kind, space, service={}))
    assert created.spec["service"]["port"] == port


async def test_null_means_absent(client: KubeClient, space: str) -> None:
    body = manifest("Controller", space)
    body["spec"] |= {"configFileRefs": None, "template": {"metadata": {"labels": None, "annotations": None}}}
    created: Controller = await client.create(CONTROLLERS, body)
    assert created.spec.config_file_refs == ()
    assert created.spec.template.metadata.labels == {}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Controller", {"slurmKeyRef": None}, "slurmKeyRef is required unless external"),
    ("Controller", {"jwtKeyRef": None}, "jwtKeyRef is required unless external"),
    ("Controller", {"external": True}, "externalConfig is required if external"),
    ("Controller", {"external": True, "externalConfig": {"host": "a"}}, "spec.externalConfig.port: Required"),
    ("Controller", {"ha": {"enabled": True}}, "ha requires persistence.existingClaim"),
    (
        "Controller",
        {"ha": {"enabled": True}, "persistence": {"enabled": True}},
        "ha requires persistence.existingClaim",
    ),
    ("Controller", {"ha": {"backups": 0}}, "spec.ha.backups"),
    ("Controller", {"clusterName": "c" * 41}, "spec.clusterName"),
    ("Controller", {"service": {"port": 70000}}, "spec.service.port"),
    ("Controller", {"slurmKeyRef": {"name": "a"}}, "spec.slurmKeyRef.key: Required"),
    ("Controller", {"slurmKeyRef": {"key": "a"}}, "name must not be empty"),
    ("Controller", {"metrics": {"serviceMonitor": {"interval": "soon"}}}, "spec.metrics.serviceMonitor.interval"),
    ("Accounting", {"slurmKeyRef": None}, "slurmKeyRef is required unless external"),
    ("Accounting", {"jwtKeyRef": None}, "jwtKeyRef is required unless external"),
    ("Accounting", {"external": True}, "externalConfig is required if external"),
    ("Accounting", {"storageConfig": None}, "storageConfig is required unless external"),
    ("Accounting", {"storageConfig": {"passwordKeyRef": KEY}}, "spec.storageConfig.host: Required"),
    ("Accounting", {"storageConfig": {"host": "a"}}, "spec.storageConfig.passwordKeyRef: Required"),
    ("RestApi", {"controllerRef": None}, "spec.controllerRef: Required"),
    ("RestApi", {"controllerRef": {"name": ""}}, "name must not be empty"),
    ("RestApi", {"replicas": -1}, "spec.replicas"),
    ("LoginSet", {"controllerRef": {"name": ""}}, "name must not be empty"),
    ("LoginSet", {"sssdConfRef": None}, "spec.sssdConfRef: Required"),
    ("LoginSet", {"strategy": {"type": "Never"}}, "spec.strategy.type"),
    ("NodeSet", {"controllerRef": {}}, "name must not be empty"),
    ("NodeSet", {"replicas": -1}, "spec.replicas"),
    ("NodeSet", {"scalingMode": "Deployment"}, "spec.scalingMode"),
    ("NodeSet", {"ssh": {"enabled": True}}, "sssdConfRef is required if ssh is enabled"),
    ("NodeSet", {"partition": {"config": "MaxTime=1\nPartitionName=evil"}}, "spec.partition.config"),
    ("NodeSet", {"updateStrategy": {"type": "ScheduledUpdate"}}, "startTime and duration are required"),
    (
        "NodeSet",
        {"updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": {"duration": "30m"}}},
        "startTime and duration are required",
    ),
    ("NodeSet", {"updateStrategy": {"scheduledUpdate": {"duration": "59s"}}}, "duration must be at least 1m"),
    ("NodeSet", {"updateStrategy": {"scheduledUpdate": {"duration": "soon"}}}, "scheduledUpdate.duration"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, "must not both be 0"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "0%"}}}, "must not both be 0"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "00%"}}}, "must not both be 0"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": -1}}}, "maxUnavailable must be a number"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "a few"}}}, "maxUnavailable must be a number"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": "many"}}}, "maxSurge must be a number"),
    ("NodeSet", {"updateStrategy": {"rollingUpdate": {"maxFailures": 0}}}, "maxFailures"),
    ("NodeSet", {"drain": {"onTimeout": "Shoot"}}, "spec.drain.onTimeout"),
    ("NodeSet", {"drain": {"timeout": "a while"}}, "spec.drain.timeout"),
    ("NodeSet", {"pruneSlurmNodeRecords": "Always"}, "spec.pruneSlurmNodeRecords"),
    ("NodeSet", {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}, "whenScaled"),
    ("Token", {"jwtKeyRef": None}, "jwtKeyRef is required"),
    ("Token", {"username": None}, "spec.username: Required"),
    ("Token", {"lifetime": "500ms"}, "lifetime must be at least 1s"),
]


@pytest.mark.parametrize(("kind", "changes", "why"), REFUSED, ids=lambda value: str(value)[:50])
async def test_what_cannot_work_is_refused_with_a_reason(
    client: KubeClient, space: str, kind: str, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(Invalid, match=r".") as refusal:
        await client.create(RESOURCES[kind], manifest(kind, space, **changes), dry_run=True)
    assert why in str(refusal.value)


CONSTANT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("Controller", {"clusterName": "one"}, {"clusterName": "two"}, "clusterName is immutable"),
    ("Controller", {}, {"slurmKeyRef": {**KEY, "name": "other"}}, "slurmKeyRef.name is immutable"),
    ("Controller", {}, {"jwtKeyRef": {**JWT, "name": "other"}}, "jwtKeyRef is immutable"),
    ("Controller", {}, {"jwtKeyRef": None, "jwtHs256KeyRef": {**JWT, "key": "b"}}, "jwtKeyRef is immutable"),
    (
        "Controller",
        {"persistence": {"enabled": True}},
        {"persistence": {"enabled": False}},
        "persistence.enabled is immutable",
    ),
    (
        "Controller",
        {"persistence": {"existingClaim": "a"}},
        {"persistence": {"existingClaim": "b"}},
        "persistence.existingClaim is immutable",
    ),
    ("Accounting", {}, {"jwtKeyRef": {**JWT, "key": "other"}}, "jwtKeyRef is immutable"),
    ("LoginSet", {}, {"controllerRef": {"name": "other"}}, "controllerRef is immutable"),
    ("NodeSet", {}, {"controllerRef": {"name": "other"}}, "controllerRef is immutable"),
    (
        "NodeSet",
        {"volumeClaimTemplates": [{"metadata": {"name": "a"}}]},
        {"volumeClaimTemplates": [{"metadata": {"name": "b"}}]},
        "volumeClaimTemplates is immutable",
    ),
    ("Token", {}, {"jwtKeyRef": {**JWT, "name": "other"}}, "jwtKeyRef is immutable"),
]


@pytest.mark.parametrize(("kind", "before", "after", "why"), CONSTANT, ids=lambda value: str(value)[:50])
async def test_immutable_fields_cannot_change(
    client: KubeClient, space: str, kind: str, before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    resource = RESOURCES[kind]
    created = await client.create(resource, manifest(kind, space, **before))
    changed_manifest = manifest(kind, space, **{**before, **after})
    changed_manifest["metadata"]["resourceVersion"] = created.metadata.resource_version
    with pytest.raises(Invalid) as refusal:
        await client.replace(resource, changed_manifest)
    assert why in str(refusal.value)


ALLOWED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Controller", {}, {"jwtKeyRef": None, "jwtHs256KeyRef": JWT}),
    ("Controller", {}, {"slurmKeyRef": {**KEY, "key": "next.key"}}),
    ("Accounting", {}, {"slurmKeyRef": {**KEY, "name": "other"}}),
    ("RestApi", {}, {"controllerRef": {"name": "other"}}),
    ("NodeSet", {}, {"scalingMode": "DaemonSet"}),
    ("NodeSet", {}, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}}}),
    ("NodeSet", {}, {"drain": {"timeout": "2h", "onTimeout": "Requeue", "deletionDeadline": "0s"}}),
    ("NodeSet", {}, {"updateStrategy": {"rollingUpdate": {"partition": 3, "paused": True, "maxFailures": 2}}}),
    ("Token", {}, {"lifetime": "0s"}),
]


@pytest.mark.parametrize(("kind", "before", "after"), ALLOWED, ids=lambda value: str(value)[:50])
async def test_mutable_fields_can_change(
    client: KubeClient, space: str, kind: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    resource = RESOURCES[kind]
    created = await client.create(resource, manifest(kind, space, **before))
    body = manifest(kind, space, **{**before, **after})
    body["metadata"]["resourceVersion"] = created.metadata.resource_version
    assert (await client.replace(resource, body)).metadata.generation > created.metadata.generation


@pytest.mark.parametrize("kind", ["NodeSet", "LoginSet", "RestApi"])
async def test_scaling_changes_the_replicas_and_reports_the_pods(client: KubeClient, space: str, kind: str) -> None:
    resource, key = RESOURCES[kind], Key(space, "slurm")
    await client.create(resource, manifest(kind, space))
    await client.apply_status(resource, key, {"replicas": 2, "selector": "a=b"}, manager="test")
    scale = await client.set_scale(resource, key, 7)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (7, 2, "a=b")
    assert (await client.get(resource, key)).spec.replicas == 7


async def test_conditions_are_written_read_and_waited_for(client: KubeClient, kubectl: Kubectl, space: str) -> None:
    key = Key(space, "slurm")
    created: NodeSet = await client.create(NODE_SETS, manifest("NodeSet", space))
    ready = with_condition((), "Ready", True, "AllUp", "All is well.", generation=1, now=SystemClock().now())
    status = {"conditions": condition_manifests(ready), "observedGeneration": 1, "desired": 1, "readyReplicas": 1}
    wrote = await client.apply_status(NODE_SETS, key, status, manager="test")
    assert wrote.status.conditions == ready
    assert wrote.status.observed_generation == created.metadata.generation
    waited = kubectl("wait", "-n", space, "nodeset/slurm", "--for=condition=Ready", "--timeout=5s")
    assert waited.returncode == 0, waited.stderr


@pytest.mark.parametrize(
    ("short", "columns"),
    [
        ("slurmctld", "NAME READY AGE"),
        ("slurmdbd", "NAME READY AGE"),
        ("slurmrestd", "NAME READY AGE"),
        ("lss", "NAME REPLICAS READY AGE"),
        ("sackd", "NAME REPLICAS READY AGE"),
        ("nss", "NAME DESIRED REPLICAS UPDATED READY AGE"),
        ("slurmd", "NAME DESIRED REPLICAS UPDATED READY AGE"),
        ("slurmd -o wide", "NAME DESIRED REPLICAS UPDATED READY IDLE ALLOCATED DOWN DRAIN REASON AGE"),
        ("slurmctld -o wide", "NAME READY REASON CONFIG AGE"),
        ("jwt", "NAME USER IAT READY AGE"),
    ],
)
async def test_short_names_and_columns_are_those_of_slurm_operator(
    client: KubeClient, kubectl: Kubectl, space: str, short: str, columns: str
) -> None:
    for kind in SMALLEST:
        await client.create(RESOURCES[kind], manifest(kind, space))
    listed = kubectl("get", *short.split(), "-n", space)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[0].split() == columns.split()
