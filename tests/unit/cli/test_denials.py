# SPDX-License-Identifier: Apache-2.0
"""What a reader may not do is named with the right that is missing, and what can be done without it is done."""

import pytest
from tests.unit.kube.scripted import Scripted, answer

from slinky import __version__
from slinky.cli.access.kubernetes import find_rest_api
from slinky.cli.cluster.command import ClusterOptions, CommandError, ExitStatus
from slinky.cli.cluster.confirmation import explained_denial
from slinky.cli.cluster.version import find_skew, read_server_versions
from slinky.kube import Forbidden, KubeClient
from slinky.slurm import Denied, Problem, SlurmClient, mint_token

DENIED = answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "restapis is forbidden"})
EMPTY = answer(200, {"metadata": {}, "items": []})
VERSION = answer(200, {"gitVersion": "v1.36.1"})
REST_API = {
    "metadata": {"name": "slurm", "namespace": "mine", "uid": "1"},
    "spec": {"controllerRef": {"name": "slurm"}},
}


async def test_a_denied_change_names_the_user_and_the_right() -> None:
    async with SlurmClient("http://127.0.0.1:9", mint_token(b"k" * 32, "bob", lifetime=60)) as client:
        with pytest.raises(CommandError) as error, explained_denial(client, "cancel job 1", "its user alice"):
            raise Denied(Problem(2002, "Access/permission denied"))
        assert "the user bob may not cancel job 1: this needs its user alice" in str(error.value)
        assert error.value.status is ExitStatus.DENIED
    async with SlurmClient("http://127.0.0.1:9", "bad") as client:
        with pytest.raises(CommandError, match="the user of the token may not"), explained_denial(client, "x", "y"):
            raise Denied(Problem(2002, "denied"))


async def test_a_user_of_one_namespace_finds_its_cluster() -> None:
    transport = Scripted([DENIED, answer(200, {"metadata": {}, "items": [REST_API]})])
    found = await find_rest_api(KubeClient(transport, namespace="mine"), ClusterOptions())
    assert found.metadata.namespace == "mine"
    assert "/namespaces/mine/restapis" in transport.sent[1][1]


async def test_a_namespace_without_a_cluster_is_named() -> None:
    kube = KubeClient(Scripted([DENIED, EMPTY, EMPTY]), namespace="mine")
    with pytest.raises(CommandError, match="no Slurm cluster in the namespace mine; -n names another namespace"):
        await find_rest_api(kube, ClusterOptions())
    with pytest.raises(Forbidden):
        await find_rest_api(KubeClient(Scripted([DENIED])), ClusterOptions(namespace="other"))


async def test_versions_of_the_servers_and_their_skew() -> None:
    labels = {"app.kubernetes.io/name": "slurm-operator", "app.kubernetes.io/version": "0.0.9"}
    operator = {"metadata": {"name": "x", "namespace": "slinky", "uid": "1", "labels": labels}, "spec": {}}
    facts = await read_server_versions(
        KubeClient(Scripted([VERSION, answer(200, {"metadata": {}, "items": [operator]})]))
    )
    assert facts == {"kubernetes": "v1.36.1", "slurm-operator": "0.0.9"}
    assert find_skew({"client": __version__, **facts}) == [f"slurm-operator is 0.0.9, this command is {__version__}"]
    assert find_skew({"client": "0.0.9", "slurm": "26.05", **facts}) == []
    facts = await read_server_versions(KubeClient(Scripted([VERSION, DENIED])))
    assert facts["processes"] == "not known: no permission to list deployments"
