# SPDX-License-Identifier: Apache-2.0
"""What the operator writes on a real API server."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk, writes

from slinky.api.controller import CONTROLLERS
from slinky.api.loginset import LOGIN_SETS
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.api.token import TOKENS
from slinky.kube import CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS, SERVICES, STATEFUL_SETS, Key, Resource
from slinky.kube.views import Unstructured

pytestmark = pytest.mark.plane

KEYS = {
    "slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"},
    "jwtKeyRef": {"name": "jwt-key", "key": "jwt.key"},
    # A size that the server does not store as it was written.
    "persistence": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
REF = {"name": "slurm"}


async def secrets(desk: Desk) -> None:
    await desk.secret("slurm-key", **{"slurm.key": "k" * 64})
    await desk.secret("jwt-key", **{"jwt.key": "j" * 32})


async def controller(desk: Desk, labels: dict[str, str] | None = None, **spec: Any) -> None:
    await desk.apply(CONTROLLERS, "slurm", labels=labels, spec={**KEYS, **spec})


async def hashes(desk: Desk) -> dict[str, str]:
    found = await desk.get(STATEFUL_SETS, "slurm-controller")
    annotations: dict[str, str] = found.spec["template"]["metadata"]["annotations"]
    return annotations


async def test_a_cluster_is_made_and_then_left_alone(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await desk.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 3})
    await desk.secret("sssd", **{"sssd.conf": "[sssd]"})
    await desk.apply(
        LOGIN_SETS, "login", spec={"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    )
    await desk.get(DEPLOYMENTS, "login")
    await desk.get(DEPLOYMENTS, "slurm-restapi")

    async def three() -> bool:
        return await desk.names(PODS) == ["gpu-0", "gpu-1", "gpu-2"]

    await desk.until(three, "three workers")
    assert await desk.names(SERVICES) == [
        "login", "slurm-controller", "slurm-controller-internal", "slurm-restapi", "slurm-workers-slurm",
    ]  # fmt: skip
    await desk.rest()
    before = writes()
    # A touch of every object makes the operator look again at all of them, and find nothing to do.
    touched: tuple[Resource[Any], ...] = (CONTROLLERS, REST_APIS, NODE_SETS, LOGIN_SETS)
    for resource, name in zip(touched, ("slurm", "slurm", "gpu", "login"), strict=True):
        touch = {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "y"}}}
        await desk.client.patch(resource, Key(desk.namespace, name), touch)
    await desk.rest()
    assert writes() == before


async def test_what_is_missing_is_said_and_then_taken_up_at_once(desk: Desk) -> None:
    await desk.secret("slurm-key", **{"slurm.key": "k" * 64})
    await controller(desk)

    async def blocked() -> bool:
        return await desk.condition(CONTROLLERS, "slurm", "Degraded") == ("True", "ReferenceMissing")

    await desk.until(blocked, "the condition")
    await desk.secret("jwt-key", **{"jwt.key": "j" * 32})
    await desk.get(STATEFUL_SETS, "slurm-controller")


async def test_bad_configuration_is_refused_before_it_reaches_slurmctld(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    good = (await desk.get(CONFIG_MAPS, "slurm-config")).data
    await controller(desk, extraConf="PartitionName=a Nodes=ALL\nPartitionName=a Nodes=ALL")

    async def refused() -> bool:
        return await desk.condition(CONTROLLERS, "slurm", "Degraded") == ("True", "InvalidConfig")

    await desk.until(refused, "the refusal")
    assert (await desk.get(CONFIG_MAPS, "slurm-config")).data == good


async def test_every_reference_rolls_slurmctld(desk: Desk) -> None:
    await secrets(desk)
    await desk.config("extra", **{"gres.conf": "AutoDetect=off"})
    await controller(desk, configFileRefs=[{"name": "extra"}])
    seen = await hashes(desk)
    for change in (
        desk.config("extra", **{"gres.conf": "AutoDetect=nvml"}),
        desk.secret("slurm-key", **{"slurm.key": "x" * 64}),
        desk.secret("jwt-key", **{"jwt.key": "y" * 32}),
    ):
        await change

        async def rolled(before: dict[str, str] = seen) -> dict[str, str] | None:
            now = await hashes(desk)
            return now if now != before else None

        seen = await desk.until(rolled, "a new hash")


async def test_a_label_that_leaves_the_owner_leaves_its_children(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk, labels={"team": "a"})

    async def labelled() -> bool:
        return (await desk.get(SERVICES, "slurm-controller")).metadata.labels.get("team") == "a"

    await desk.until(labelled, "the label")
    await controller(desk)

    async def plain() -> bool:
        return "team" not in (await desk.get(SERVICES, "slurm-controller")).metadata.labels

    await desk.until(plain, "its end")


async def test_what_somebody_changes_is_put_right_and_what_they_delete_comes_back(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    key = Key(desk.namespace, "slurm-controller")
    made = await desk.get(SERVICES, key.name)
    await desk.client.patch(SERVICES, key, {"spec": {"selector": {metadata.APP_NAME: "evil"}}})

    async def right() -> bool:
        return bool((await desk.get(SERVICES, key.name)).spec["selector"][metadata.APP_NAME] == "slurmctld")

    await desk.until(right, "the selector")
    await desk.client.delete(SERVICES, key)

    async def back() -> bool:
        found = await desk.find(SERVICES, key.name)
        return found is not None and found.metadata.uid != made.metadata.uid

    await desk.until(back, "the Service")


async def test_what_somebody_else_made_under_our_name_is_left_alone(desk: Desk) -> None:
    """A LoginSet gives its own name to a Service: applied over, another's would lead to sshd and go with the set."""
    await secrets(desk)
    await controller(desk)
    await desk.secret("sssd", **{"sssd.conf": "[sssd]"})
    theirs = {"selector": {"app": "shop"}, "ports": [{"name": "web", "port": 80}]}
    await desk.apply(SERVICES, "shop", spec=theirs)
    before = await desk.get(SERVICES, "shop")
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await desk.apply(LOGIN_SETS, "shop", spec=login)

    async def said() -> bool:
        return await desk.condition(LOGIN_SETS, "shop", "Degraded") == ("True", "NameTaken")

    await desk.until(said, "the condition")
    assert (await desk.get(SERVICES, "shop")).metadata.resource_version == before.metadata.resource_version


async def test_a_stateful_set_of_another_shape_is_replaced(desk: Desk) -> None:
    await secrets(desk)
    old = {
        "serviceName": "slurm-controller",
        "selector": {"matchLabels": {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm"}},
        "template": {
            "metadata": {"labels": {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm"}},
            "spec": {"containers": [{"name": "slurmctld", "image": "x"}]},
        },
    }
    labels = {metadata.APP_NAME: "slurmctld", metadata.APP_INSTANCE: "slurm", metadata.APP_COMPONENT: "controller"}
    await desk.apply(STATEFUL_SETS, "slurm-controller", labels=labels, spec=old)
    await controller(desk)

    assert (await replaced(desk, serviceName="slurm-controller-internal")).spec["replicas"] == 1


async def replaced(desk: Desk, **fields: Any) -> Unstructured:
    """The StatefulSet once it has these fields, which needs another one."""

    async def finalized() -> Unstructured | None:
        # Without a controller-manager nobody else takes the orphan finalizer away.
        found = await desk.get(STATEFUL_SETS, "slurm-controller")
        if found.metadata.finalizers:
            await desk.client.patch(STATEFUL_SETS, found.key, {"metadata": {"finalizers": None}})
        return found if fields.items() <= found.spec.items() else None

    made: Unstructured = await desk.until(finalized, "the new one", 20)
    return made


async def test_standbys_can_be_asked_for_later(desk: Desk) -> None:
    """What another operator, or the server, has said about rolling updates is refused beside ours."""
    await secrets(desk)
    shared = {"enabled": True, "existingClaim": "shared"}
    await controller(desk, persistence=shared)
    key = Key(desk.namespace, "slurm-controller")
    await desk.get(STATEFUL_SETS, key.name)
    rolling = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
    await desk.client.apply(STATEFUL_SETS, STATEFUL_SETS.manifest(key, spec=rolling), manager="another")
    await controller(desk, persistence=shared, ha={"enabled": True})
    assert (await replaced(desk, podManagementPolicy="Parallel")).spec["updateStrategy"] == {"type": "OnDelete"}


async def test_what_the_server_refuses_is_said_and_replaces_nothing(desk: Desk) -> None:
    """Its claim is of another spelling than the server's, which is no reason to make the StatefulSet anew."""
    await secrets(desk)
    await controller(desk)
    before = await desk.get(STATEFUL_SETS, "slurm-controller")
    await controller(desk, slurmctld={"ports": [{"name": "x", "containerPort": 0}]})

    async def said() -> bool:
        return (await desk.condition(CONTROLLERS, "slurm", "Degraded"))[0] == "True"

    await desk.until(said, "the refusal")
    after = await desk.get(STATEFUL_SETS, "slurm-controller")
    assert (after.metadata.uid, after.metadata.deleting) == (before.metadata.uid, False)


async def test_another_way_to_replace_login_hosts_can_be_chosen_later(desk: Desk) -> None:
    """The server fills in how to roll, and refuses that beside another way."""
    await secrets(desk)
    await controller(desk)
    await desk.secret("sssd", **{"sssd.conf": "[sssd]"})
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await desk.apply(LOGIN_SETS, "login", spec=login)
    await desk.get(DEPLOYMENTS, "login")
    await desk.apply(LOGIN_SETS, "login", spec={**login, "strategy": {"type": "Recreate"}})

    async def chosen() -> bool:
        return bool((await desk.get(DEPLOYMENTS, "login")).spec["strategy"] == {"type": "Recreate"})

    await desk.until(chosen, "the other way")


async def test_what_the_incumbent_made_without_labels_is_taken_over(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    cluster = (await desk.get(CONTROLLERS, "slurm")).metadata
    owner = {"apiVersion": CONTROLLERS.api_version, "kind": "Controller", "name": "slurm", "uid": cluster.uid}
    old = {"clusterIP": "None", "ports": [{"name": "old", "port": 6818}], "selector": {"old": "old"}}
    name = "slurm-workers-slurm"
    manifest = SERVICES.manifest(Key(desk.namespace, name), metadata={"ownerReferences": [owner]}, spec=old)
    await desk.client.create(SERVICES, manifest)
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})

    async def ours() -> bool:
        return bool((await desk.get(SERVICES, name)).spec["selector"].get(metadata.CLUSTER) == "slurm")

    await desk.until(ours, "our selector")


async def test_host_keys_are_made_once(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await desk.secret("sssd", **{"sssd.conf": "[sssd]"})
    login = {"controllerRef": REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    await desk.apply(LOGIN_SETS, "login", spec=login)
    first = await desk.get(SECRETS, "login-ssh-host-keys")
    await desk.apply(LOGIN_SETS, "login", spec={**login, "extraSshdConfig": "Banner none"})
    await desk.rest()
    assert (await desk.get(SECRETS, "login-ssh-host-keys")).metadata.resource_version == first.metadata.resource_version


async def test_a_token_follows_its_key(desk: Desk) -> None:
    await secrets(desk)
    await desk.apply(TOKENS, "t", spec={"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice", "lifetime": "1h"})
    first = (await desk.get(SECRETS, "t-jwt-alice")).data
    await desk.rest()
    assert (await desk.get(SECRETS, "t-jwt-alice")).data == first
    await desk.secret("jwt-key", **{"jwt.key": "n" * 32})

    async def signed_anew() -> bool:
        return bool((await desk.get(SECRETS, "t-jwt-alice")).data != first)

    await desk.until(signed_anew, "a token of the new key")
    assert await desk.condition(TOKENS, "t", "Ready") == ("True", "Issued")


async def test_a_token_takes_over_what_slurm_operator_made_and_leaves_other_secrets_alone(desk: Desk) -> None:
    await secrets(desk)
    await desk.secret("mine", password="keep")
    await desk.secret("t-jwt-alice", SLURM_JWT="of slurm-operator")
    signer = await desk.get(SECRETS, "jwt-key")
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "jwt-key", "uid": signer.metadata.uid, "controller": True}
    left = Key(desk.namespace, "t-jwt-alice")
    await desk.client.patch(SECRETS, left, {"metadata": {"ownerReferences": [owner]}})
    spec = {"jwtKeyRef": KEYS["jwtKeyRef"], "username": "alice"}
    await desk.apply(TOKENS, "t", spec=spec)
    await desk.apply(TOKENS, "greedy", spec={**spec, "secretRef": {"name": "mine", "key": "SLURM_JWT"}})

    async def taken_over() -> bool:
        found = await desk.get(SECRETS, left.name)
        fresh = await desk.condition(TOKENS, "t", "Ready") == ("True", "Issued")
        return fresh and [one.kind for one in found.metadata.owner_references] == ["Token"]

    await desk.until(taken_over, "the Secret in the hands of its Token")

    async def refused() -> bool:
        return await desk.condition(TOKENS, "greedy", "Degraded") == ("True", "SecretTaken")

    await desk.until(refused, "the refusal")
    mine = await desk.get(SECRETS, "mine")
    assert list(mine.data) == ["password"]
    assert not mine.metadata.owner_references


async def test_a_set_made_again_under_its_name_gets_its_workers(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    for _ in range(2):
        await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2})

        async def both() -> bool:
            return await desk.names(PODS) == ["gpu-0", "gpu-1"]

        await desk.until(both, "two workers")
        await desk.client.delete(NODE_SETS, Key(desk.namespace, "gpu"))

        async def gone() -> bool:
            return await desk.find(NODE_SETS, "gpu") is None

        # Workers that were never placed need no drain, so the set can go although nothing is known of Slurm.
        await desk.until(gone, "the set's end", 20)


async def test_a_set_goes_at_once_when_its_cluster_goes(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})
    await desk.get(PODS, "gpu-0")
    await desk.client.delete(CONTROLLERS, Key(desk.namespace, "slurm"))
    await desk.client.delete(NODE_SETS, Key(desk.namespace, "gpu"))

    async def gone() -> bool:
        return await desk.find(NODE_SETS, "gpu") is None

    await desk.until(gone, "the set's end")


async def test_references_stay_in_their_namespace(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": {"name": "../slurm"}, "replicas": 1})

    async def blocked() -> bool:
        return await desk.condition(NODE_SETS, "gpu", "Degraded") == ("True", "ControllerMissing")

    await desk.until(blocked, "the condition")
    assert await desk.names(PODS) == []
