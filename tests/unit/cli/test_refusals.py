# SPDX-License-Identifier: Apache-2.0
"""Bundles and logs while the API server refuses some requests: the rest is still there, and each refusal is named."""

import tarfile
from pathlib import Path

import pytest
from tests.unit.kube.scripted import Chunks, Scripted, answer

from slinky.cli.bundle import kubernetes_facts as facts
from slinky.cli.bundle.archive import BundleWriter
from slinky.cli.bundle.redaction import Redactor
from slinky.cli.cluster.command import CommandError
from slinky.cli.cluster.output import OutputFormat
from slinky.cli.pods.log_options import LogOptions
from slinky.cli.pods.pod_logs import find_pod, find_pods_of_job, print_pod_logs
from slinky.kube import Forbidden, KubeClient, ObjectMeta, Pod
from slinky.kube.views import ContainerStatus, PodSpec, PodStatus

DENIED = answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "secrets is forbidden"})
EMPTY = answer(200, {"metadata": {}, "items": []})
POD = {
    "metadata": {"name": "p", "namespace": "s", "uid": "1", "managedFields": [{"a": 1}]},
    "spec": {"containers": [{"name": "c", "env": [{"name": "DB_PASSWORD", "value": "hunter-two"}]}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 1, "state": {}}]},
}
PODS = answer(200, {"metadata": {}, "items": [POD]})


def listing(name: str) -> object:
    pod = {"metadata": {"name": name, "namespace": "s", "uid": name}, "spec": {}}
    return answer(200, {"metadata": {}, "items": [pod]})


async def test_a_bundle_has_what_can_be_read_and_names_the_rest(tmp_path: Path) -> None:
    problems: list[str] = []
    # Six kinds, pods, deployments, stateful sets, config maps, events, secrets; nodes; pods and their logs.
    objects = [*[EMPTY] * 6, PODS, EMPTY, DENIED, EMPTY, EMPTY, DENIED]
    nodes = [answer(200, {"gitVersion": "v1.36.0"}), EMPTY]
    logs = [PODS, answer(200, b"now hunter-two\n"), answer(500, b"gone")]
    kube = KubeClient(Scripted([*objects, *nodes, *logs]))
    path = tmp_path / "b.tar.gz"
    with BundleWriter(path, Redactor([b"hunter-two"]), limit=10**6, now=0) as bundle:
        await facts.add_objects(kube, bundle, "s", problems)
        await facts.add_nodes(kube, bundle, problems)
        await facts.add_logs(kube, bundle, "s", problems)
    with tarfile.open(path) as tar:
        texts = {entry.name: tar.extractfile(entry) for entry in tar.getmembers()}
        content = {name: opened.read().decode() for name, opened in texts.items() if opened is not None}
    assert "hunter-two" not in "".join(content.values())
    assert "managedFields" not in content["b/kubernetes/s/pods.json"]
    assert content["b/logs/s/p/c.log"] == "now [redacted]\n"
    named = [problem.partition(":")[0] for problem in problems]
    assert named == ["statefulsets of s", "secrets of s", "logs/s/p/c.previous.log"]


async def test_namespaces_and_secret_values_of_a_reader_with_few_rights() -> None:
    problems: list[str] = []
    kube = KubeClient(Scripted([DENIED] * 7), namespace="mine")
    assert await facts.find_namespaces(kube, "", problems) == ["mine"]
    assert len(problems) == 6
    assert await facts.read_secret_values(kube, ["mine"], problems) == []
    assert "redacted by their form alone" in problems[-1]
    assert await facts.find_namespaces(kube, "other", problems) == ["other"]


def pod(*containers: str) -> Pod:
    statuses = tuple(ContainerStatus(name) for name in containers)
    status = PodStatus(phase="Running", container_statuses=statuses)
    return Pod(metadata=ObjectMeta(name="p", namespace="s"), spec=PodSpec(), status=status)


@pytest.mark.parametrize("follow", [False, True])
async def test_logs_of_several_containers_name_them(follow: bool, capsys: pytest.CaptureFixture[str]) -> None:
    kube = KubeClient(Scripted(streams=[Chunks([b"one\ntw", b"o\n"]), Chunks([b"three"])]))
    await print_pod_logs(kube, [pod("a", "b")], LogOptions(10, follow=follow, output=OutputFormat.TEXT))
    assert sorted(capsys.readouterr().out.splitlines()) == ["[p/a] one", "[p/a] two", "[p/b] three"]


async def test_a_refused_log_is_an_error() -> None:
    kube = KubeClient(Scripted(streams=[Chunks([DENIED.body], 403)]))
    with pytest.raises(Forbidden):
        await print_pod_logs(kube, [pod("a")], LogOptions(10))


async def test_pods_of_a_job_are_searched_in_the_own_namespace_without_wider_rights() -> None:
    transport = Scripted([DENIED, PODS])
    found = await find_pods_of_job(KubeClient(transport, namespace="mine"), 7, "")
    assert [each.metadata.name for each in found] == ["p"]
    assert "/namespaces/mine/pods" in transport.sent[1][1]
    with pytest.raises(Forbidden):
        await find_pods_of_job(KubeClient(Scripted([DENIED])), 7, "other")


async def test_an_unknown_pod_suggests_near_ones() -> None:
    missing = answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
    with pytest.raises(CommandError, match="there is no pod in s worker-1; did you mean worker-0"):
        await find_pod(KubeClient(Scripted([missing, listing("worker-0")])), "worker-1", "s")
