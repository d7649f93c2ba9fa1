# SPDX-License-Identifier: Apache-2.0
"""The objects that the operator writes on a real API server."""

from typing import Any

import pytest
from tests.integration.operator.stage import KEYS, REF, OperatorStage
from tests.support.waiting import eventually

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, SECRETS, SERVICES, STATEFUL_SETS, Key, Resource
from slinky.kube.views import Unstructured

pytestmark = pytest.mark.plane


async def hashes(stage: OperatorStage) -> dict[str, str]:
    stateful_set = await stage.get(STATEFUL_SETS, "slurm-controller")
    annotations: dict[str, str] = stateful_set.spec["template"]["metadata"]["annotations"]
    return annotations


async def test_a_cluster_is_created_and_causes_no_further_writes(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 3})
    await stage.secret("sssd", **{"sssd.conf": "[sssd]"})
    await stage.apply(
        LOGIN_SETS, "login", spec={"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    )
    await stage.get(DEPLOYMENTS, "login")
    await stage.get(DEPLOYMENTS, "slurm-restapi")

    await stage.wait_names(PODS, "gpu-0", "gpu-1", "gpu-2")
    assert await stage.names(SERVICES) == [
        "login", "slurm-controller", "slurm-controller-internal", "slurm-restapi", "slurm-workers-slurm",
    ]  # fmt: skip
    await stage.quiescent()
    before = stage.writes()
    # A touch of every object makes the operator reconcile all of them; it must find nothing to do.
    touched: tuple[Resource[Any], ...] = (CONTROLLERS, REST_APIS, NODE_SETS, LOGIN_SETS)
    for resource, name in zip(touched, ("slurm", "slurm", "gpu", "login"), strict=True):
        touch = {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "y"}}}
        await stage.client.patch(resource, Key(stage.namespace, name), touch)
    await stage.quiescent()
    assert stage.writes() == before


async def test_daemons_that_run_as_a_user_are_restricted(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.secret("db", password="x")
    storage = {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}}
    keys = {name: KEYS[name] for name in ("slurmKeyRef", "jwtKeyRef")}
    await stage.apply(ACCOUNTINGS, "slurm", spec={**keys, "storageConfig": storage})
    # Without persistence the template is a whole pod; its volume comes from the StatefulSet otherwise.
    await stage.apply_controller(persistence={"enabled": False}, inplaceReconfigure=True)
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    strict = f"{stage.namespace}-strict"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await stage.client.create(NAMESPACES, {"metadata": {"name": strict, "labels": labels}})
    daemons: tuple[tuple[Resource[Any], str], ...] = (
        (STATEFUL_SETS, "slurm-controller"),
        (STATEFUL_SETS, "slurm-accounting"),
        (DEPLOYMENTS, "slurm-restapi"),
    )
    for resource, name in daemons:
        template = (await stage.get(resource, name)).spec["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {"name": name}}
        pod["metadata"]["namespace"] = strict
        await stage.client.create(PODS, pod, dry_run=True)


async def test_a_missing_reference_is_reported_and_used_once_it_exists(stage: OperatorStage) -> None:
    await stage.secret("slurm-key", **{"slurm.key": "k" * 64})
    await stage.apply_controller()

    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "ReferenceMissing")
    await stage.secret("jwt-key", **{"jwt.key": "j" * 32})
    await stage.get(STATEFUL_SETS, "slurm-controller")


async def test_bad_configuration_is_refused_before_it_reaches_slurmctld(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    good = (await stage.get(CONFIG_MAPS, "slurm-config")).data
    await stage.apply_controller(extraConf="PartitionName=a Nodes=ALL\nPartitionName=a Nodes=ALL")

    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "InvalidConfig")
    assert (await stage.get(CONFIG_MAPS, "slurm-config")).data == good


async def test_every_reference_rolls_slurmctld(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.config("extra", **{"gres.conf": "AutoDetect=off"})
    await stage.apply_controller(configFileRefs=[{"name": "extra"}])
    current = await hashes(stage)
    for change in (
        stage.config("extra", **{"gres.conf": "AutoDetect=nvml"}),
        stage.secret("slurm-key", **{"slurm.key": "x" * 64}),
        stage.secret("jwt-key", **{"jwt.key": "y" * 32}),
    ):
        await change

        async def is_changed(before: dict[str, str] = current) -> dict[str, str] | None:
            now = await hashes(stage)
            return now if now != before else None

        current = await eventually(is_changed, "a new hash")


async def test_a_label_removed_from_an_owner_is_removed_from_its_children(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller(labels={"team": "a"})

    async def has_label() -> bool:
        return (await stage.get(SERVICES, "slurm-controller")).metadata.labels.get("team") == "a"

    await eventually(has_label, "the label")
    await stage.apply_controller()

    async def has_no_label() -> bool:
        return "team" not in (await stage.get(SERVICES, "slurm-controller")).metadata.labels

    await eventually(has_no_label, "removal of the label")


async def test_changed_children_are_repaired_and_deleted_ones_created_again(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    key = Key(stage.namespace, "slurm-controller")
    created = await stage.get(SERVICES, key.name)
    await stage.client.patch(SERVICES, key, {"spec": {"selector": {metadata.APP_NAME: "evil"}}})

    async def is_repaired() -> bool:
        return bool((await stage.get(SERVICES, key.name)).spec["selector"][metadata.APP_NAME] == "slurmctld")

    await eventually(is_repaired, "the selector")
    await stage.client.delete(SERVICES, key)

    async def is_created_again() -> bool:
        service = await stage.find(SERVICES, key.name)
        return service is not None and service.metadata.uid != created.metadata.uid

    await eventually(is_created_again, "the Service")


async def test_a_foreign_object_with_the_name_of_a_child_is_not_changed(stage: OperatorStage) -> None:
    """A LoginSet gives its own name to a Service: applied over, another's would lead to sshd and go with the set."""
    await stage.create_keys()
    await stage.apply_controller()
    await stage.secret("sssd", **{"sssd.conf": "[sssd]"})
    theirs = {"selector": {"app": "shop"}, "ports": [{"name": "web", "port": 80}]}
    await stage.apply(SERVICES, "shop", spec=theirs)
    before = await stage.get(SERVICES, "shop")
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await stage.apply(LOGIN_SETS, "shop", spec=login)

    await stage.wait_condition(LOGIN_SETS, "shop", "Degraded", "True", "NameTaken")
    assert (await stage.get(SERVICES, "shop")).metadata.resource_version == before.metadata.resource_version


async def test_a_stateful_set_with_other_immutable_fields_is_replaced(stage: OperatorStage) -> None:
    await stage.create_keys()
    old = {
        "serviceName": "slurm-controller",
        "selector": {"matchLabels": {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm"}},
        "template": {
            "metadata": {"labels": {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm"}},
            "spec": {"containers": [{"name": "slurmctld", "image": "x"}]},
        },
    }
    labels = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}
    await stage.apply(STATEFUL_SETS, "slurm-controller", labels=labels, spec=old)
    await stage.apply_controller()

    assert (await wait_replaced(stage, serviceName="slurm-controller-internal")).spec["replicas"] == 1


async def wait_replaced(stage: OperatorStage, **fields: Any) -> Unstructured:
    """The StatefulSet once it has these fields, which only another StatefulSet can have."""

    async def remove_finalizers() -> Unstructured | None:
        # The controller-manager, which is not part of this test, would remove the orphan finalizer.
        stateful_set = await stage.get(STATEFUL_SETS, "slurm-controller")
        if stateful_set.metadata.finalizers:
            await stage.client.patch(STATEFUL_SETS, stateful_set.key, {"metadata": {"finalizers": None}})
        return stateful_set if fields.items() <= stateful_set.spec.items() else None

    created: Unstructured = await eventually(remove_finalizers, "another StatefulSet")
    return created


async def test_standbys_can_be_added_later(stage: OperatorStage) -> None:
    """The rolling-update fields of another field manager are refused beside our update strategy."""
    await stage.create_keys()
    shared = {"enabled": True, "existingClaim": "shared"}
    await stage.apply_controller(persistence=shared)
    key = Key(stage.namespace, "slurm-controller")
    await stage.get(STATEFUL_SETS, key.name)
    rolling = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
    await stage.client.apply(STATEFUL_SETS, STATEFUL_SETS.manifest(key, spec=rolling), manager="another")
    await stage.apply_controller(persistence=shared, ha={"enabled": True})
    await wait_replaced(stage, updateStrategy={"type": "OnDelete"})


async def test_a_refusal_of_the_api_server_is_reported_and_replaces_nothing(stage: OperatorStage) -> None:
    """Its claim is of another spelling than the server's, which is no reason to make the StatefulSet anew."""
    await stage.create_keys()
    await stage.apply_controller()
    before = await stage.get(STATEFUL_SETS, "slurm-controller")
    # Kubernetes 1.33 judges only the metadata of the pods of a StatefulSet.
    await stage.apply_controller(template={"metadata": {"annotations": {"not/a/key": ""}}})

    async def is_reported() -> bool:
        return (await stage.condition(CONTROLLERS, "slurm", "Degraded"))[0] == "True"

    await eventually(is_reported, "the refusal")
    after = await stage.get(STATEFUL_SETS, "slurm-controller")
    assert (after.metadata.uid, after.metadata.deleting) == (before.metadata.uid, False)


async def test_the_update_strategy_of_login_hosts_can_be_changed_later(stage: OperatorStage) -> None:
    """The server fills in how to roll, and refuses that beside another way."""
    await stage.create_keys()
    await stage.apply_controller()
    await stage.secret("sssd", **{"sssd.conf": "[sssd]"})
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await stage.apply(LOGIN_SETS, "login", spec=login)
    await stage.get(DEPLOYMENTS, "login")
    await stage.apply(LOGIN_SETS, "login", spec={**login, "strategy": {"type": "Recreate"}})

    async def has_strategy() -> bool:
        return bool((await stage.get(DEPLOYMENTS, "login")).spec["strategy"] == {"type": "Recreate"})

    await eventually(has_strategy, "the other strategy")


async def test_objects_of_slurm_operator_without_labels_are_adopted(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    cluster = (await stage.get(CONTROLLERS, "slurm")).metadata
    owner = {"apiVersion": CONTROLLERS.api_version, "kind": "Controller", "name": "slurm", "uid": cluster.uid}
    old = {"clusterIP": "None", "ports": [{"name": "old", "port": 6818}], "selector": {"old": "old"}}
    name = "slurm-workers-slurm"
    manifest = SERVICES.manifest(Key(stage.namespace, name), metadata={"ownerReferences": [owner]}, spec=old)
    await stage.client.create(SERVICES, manifest)
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})

    async def has_selector() -> bool:
        return bool((await stage.get(SERVICES, name)).spec["selector"].get(metadata.CLUSTER) == "slurm")

    await eventually(has_selector, "our selector")


async def test_generated_keys_are_written_once(stage: OperatorStage) -> None:
    def asking_for(names: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {metadata.GENERATE_KEYS: names}}}

    key = Key(stage.namespace, "keys")
    await stage.client.create(SECRETS, SECRETS.manifest(key, **asking_for("slurm.key")))

    async def data() -> dict[str, Any]:
        return (await stage.get(SECRETS, "keys")).data or {}

    async def has_key(name: str) -> bool:
        return name in await data()

    await eventually(lambda: has_key("slurm.key"), "the first key")
    first = (await data())["slurm.key"]
    await stage.client.patch(SECRETS, key, asking_for("slurm.key,jwt.key"))
    await eventually(lambda: has_key("jwt.key"), "the second key")
    assert (await data())["slurm.key"] == first
    assert (await data())["jwt.key"] != first


async def test_an_accounting_that_is_not_ready_changes_no_running_slurmctld(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.secret("db", password="p")
    await stage.apply_controller()
    before = (await stage.get(STATEFUL_SETS, "slurm-controller")).spec
    storage = {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}}
    keys = {name: KEYS[name] for name in ("slurmKeyRef", "jwtKeyRef")}
    await stage.apply(ACCOUNTINGS, "slurm", spec={**keys, "storageConfig": storage})
    await stage.apply_controller(accountingRef=REF)
    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "WaitingForAccounting")
    await stage.quiescent()
    assert (await stage.get(STATEFUL_SETS, "slurm-controller")).spec == before
    config = (await stage.get(CONFIG_MAPS, "slurm-config")).data
    assert "AccountingStorageHost" not in config["slurm.conf"]
    # Without kubelets the test reports for slurmdbd.
    status = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}
    name = Key(stage.namespace, "slurm-accounting")
    await stage.client.patch(STATEFUL_SETS, name, {"status": status}, subresource="status")

    async def is_used() -> bool:
        config = (await stage.get(CONFIG_MAPS, "slurm-config")).data
        return "AccountingStorageHost=slurm-accounting" in config["slurm.conf"]

    await eventually(is_used, "slurm.conf with the Accounting")


async def test_host_keys_are_generated_once(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.secret("sssd", **{"sssd.conf": "[sssd]"})
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await stage.apply(LOGIN_SETS, "login", spec=login)
    first = await stage.get(SECRETS, "login-ssh-host-keys")
    await stage.apply(LOGIN_SETS, "login", spec={**login, "extraSshdConfig": "Banner none"})
    await stage.quiescent()
    assert (
        await stage.get(SECRETS, "login-ssh-host-keys")
    ).metadata.resource_version == first.metadata.resource_version


async def test_a_token_is_signed_again_when_its_key_changes(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply(TOKENS, "t", spec={"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice", "lifetime": "1h"})
    first = (await stage.get(SECRETS, "t-jwt-alice")).data
    await stage.quiescent()
    assert (await stage.get(SECRETS, "t-jwt-alice")).data == first
    await stage.secret("jwt-key", **{"jwt.key": "n" * 32})

    async def is_replaced() -> bool:
        return bool((await stage.get(SECRETS, "t-jwt-alice")).data != first)

    await eventually(is_replaced, "a token of the new key")
    assert await stage.condition(TOKENS, "t", "Ready") == ("True", "Issued")


async def test_a_token_adopts_the_secret_of_slurm_operator_and_no_other(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.secret("mine", password="keep")
    await stage.secret("t-jwt-alice", SLURM_JWT="of slurm-operator")
    signer = await stage.get(SECRETS, "jwt-key")
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "jwt-key", "uid": signer.metadata.uid, "controller": True}
    secret = Key(stage.namespace, "t-jwt-alice")
    await stage.client.patch(SECRETS, secret, {"metadata": {"ownerReferences": [owner]}})
    spec = {"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice"}
    await stage.apply(TOKENS, "t", spec=spec)
    await stage.apply(TOKENS, "greedy", spec={**spec, "secretRef": {"name": "mine", "key": "SLURM_JWT"}})

    async def is_owned() -> bool:
        item = await stage.get(SECRETS, secret.name)
        fresh = await stage.condition(TOKENS, "t", "Ready") == ("True", "Issued")
        return fresh and [owner.kind for owner in item.metadata.owner_references] == ["Token"]

    await eventually(is_owned, "a Secret that its Token owns")

    await stage.wait_condition(TOKENS, "greedy", "Degraded", "True", "SecretTaken")
    mine = await stage.get(SECRETS, "mine")
    assert list(mine.data) == ["password"]
    assert not mine.metadata.owner_references


async def test_a_node_set_that_is_created_again_gets_its_workers(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    for _ in range(2):
        await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2})

        await stage.wait_names(PODS, "gpu-0", "gpu-1")
        await stage.client.delete(NODE_SETS, Key(stage.namespace, "gpu"))

        # Workers that were never placed need no drain, so the set can go although nothing is known of Slurm.
        await stage.wait_deleted(NODE_SETS, "gpu")


async def test_a_node_set_is_deleted_at_once_with_its_cluster(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})
    await stage.get(PODS, "gpu-0")
    await stage.client.delete(CONTROLLERS, Key(stage.namespace, "slurm"))
    await stage.client.delete(NODE_SETS, Key(stage.namespace, "gpu"))

    await stage.wait_deleted(NODE_SETS, "gpu")


async def test_references_stay_in_their_namespace(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": {"name": "../slurm"}, "replicas": 1})

    await stage.wait_condition(NODE_SETS, "gpu", "Degraded", "True", "ControllerMissing")
    assert (await stage.get(NODE_SETS, "gpu")).status["desired"] == 1
    assert await stage.names(PODS) == []
    # A key of another namespace, which the operator may read, signs nothing here.
    other = f"{stage.namespace}-x"
    await stage.client.create(NAMESPACES, NAMESPACES.manifest(Key("", other)))
    secret = SECRETS.manifest(Key(other, "stolen"), stringData={"jwt.key": "j" * 32})
    await stage.client.create(SECRETS, secret)
    for number, name in enumerate(("stolen", f"{other}/stolen", f"../{other}/stolen")):
        reference = {"name": name, "key": "jwt.key", "namespace": other}  # the schema has no such field
        spec = {"jwtKeyRef": reference, "username": "alice"}
        token = TOKENS.manifest(Key(stage.namespace, f"t{number}"), spec=spec)
        created = await stage.client.create(TOKENS.viewed_as(Unstructured), token)
        assert "namespace" not in created.spec["jwtKeyRef"]
        await stage.wait_condition(TOKENS, f"t{number}", "Degraded", "True", "ReferenceMissing")
    assert [name for name in await stage.names(SECRETS) if name.endswith("-jwt-alice")] == []
